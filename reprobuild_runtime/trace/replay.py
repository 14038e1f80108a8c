"""Repetitions of one operation on its recorded inputs."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

    from reprobuild_runtime.trace.recorder import Recorder


def repeat(
    torch: "Any", recorder: "Recorder", func: "Any", args: "Any", kwargs: "Any", record: "Dict[str, Any]"
) -> None:
    """Repeat an operation on copies of its inputs, if the options name it; record the number of results.

    The states of the generators are those of the operation's start, in each repetition and afterwards.
    """
    request = recorder.options.replay
    if request is None or [recorder.name, recorder.step, recorder.number] != list(request[:3]):
        return
    from torch.utils._pytree import tree_map_only

    digests = recorder.digests
    assert digests is not None
    state = torch.get_rng_state()
    results: "Dict[str, int]" = {}
    for _ in range(int(request[3])):
        copied, named = tree_map_only(torch.Tensor, lambda tensor: tensor.clone(), (args, kwargs))
        torch.set_rng_state(state)
        result = func(*copied, **named)
        pending = recorder.digest_value([result, copied])
        key = " ".join(digests.finish([value for value in pending if not isinstance(value, str)]))
        results[key] = results.get(key, 0) + 1
    torch.set_rng_state(state)
    record["replayed"] = sorted(results.values(), reverse=True)
