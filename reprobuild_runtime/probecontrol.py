"""The control: a computation known to drift, which shows that the comparison of probes can fail.

On the CPU torch's `index_put_(accumulate=True)` adds in parallel with atomic operations, in an order that
changes, as soon as there are two threads; on a GPU `index_add_` does. `torch.use_deterministic_algorithms` fixes
both.
https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html
"""

from reprobuild_runtime.digest import digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

# Tried in turn until a drift is seen. On a busy machine one thread may be done with the smallest before the other
# begins, each time; the largest takes longer than any turn that the kernel gives a thread.
SIZES, BINS = (1 << 20, 1 << 22, 1 << 24), 64


def control(torch: "Any", device: str = "cpu", repeats: int = 10) -> "Dict[str, Any]":
    """Return {"effective", "distinct", "repeats", "size", "threads", "comparator"}.

    Effective is a control that gave more than one result; `size` is the last that was tried, in elements, and the
    numbers are its own. `comparator` says of small changes to a tensor whether the digest tells them apart. The
    number of threads and the deterministic mode are put back.
    """
    threads, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    if strict:  # only then: the call imports torch's compiler, which takes seconds
        torch.use_deterministic_algorithms(False)
    try:
        if device == "cpu":
            torch.set_num_threads(max(2, threads))
        used, distinct, size = torch.get_num_threads(), 0, 0
        for size in SIZES:
            distinct = len({digest([result]) for result in _results(torch, device, repeats, size)})
            if distinct > 1:
                break
    finally:
        torch.set_num_threads(threads)
        if strict:
            torch.use_deterministic_algorithms(True)
    return {
        "effective": distinct > 1,
        "distinct": distinct,
        "repeats": repeats,
        "size": size,
        "threads": used,
        "comparator": comparator(torch),
    }


def _results(torch: "Any", device: str, repeats: int, size: int) -> "List[Any]":
    private = torch.Generator()
    private.manual_seed(0)
    index = torch.randint(0, BINS, (size,), generator=private).to(device)
    values = torch.randn(size, generator=private).to(device)
    results = []
    for _ in range(repeats):
        start = torch.zeros(BINS, device=device)
        if device == "cpu":
            results.append(start.index_put_((index,), values, accumulate=True))
        else:
            results.append(start.index_add_(0, index, values))
    return results


def comparator(torch: "Any") -> "Dict[str, bool]":
    """Return, for each small change to a tensor, whether the digest differs."""
    base = torch.tensor([0.0, 1.5, float("nan"), 3.25])
    bits = base.view(torch.int32)
    lowest, negative, payload = bits.clone(), bits.clone(), bits.clone()
    lowest[1] ^= 1
    negative[0] = -(2**31)
    payload[2] ^= 1
    changed = {
        "lowest bit": lowest.view(torch.float32),
        "sign of zero": negative.view(torch.float32),
        "payload of NaN": payload.view(torch.float32),
        "order": base[[0, 3, 2, 1]],
        "one element more": torch.cat([base, torch.zeros(1)]),
        "type": bits,
        "shape": base.reshape(2, 2),
    }
    return {name: digest([value]) != digest([base]) for name, value in changed.items()}
