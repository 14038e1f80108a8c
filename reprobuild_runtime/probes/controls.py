"""Controls: computations with known drift.

They show that the determinism tests can fail.

Each drifts by default and stops if it is cured: by torch's deterministic algorithms (`strict`), or, if those cannot
help, by another cure (`cured`). A control that does not do both is ineffective, and does not support any identical
result of the tests.
"""

import os
import random
import sys
import threading
import time

from reprobuild_runtime.digest import digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List

    Say = Callable[[Dict[str, Any]], None]

# Tried in turn until a drift is seen. On a busy machine one thread may be done with the smallest before the other
# begins, each time; the largest takes longer than any time slice of the kernel.
SIZES, BINS = (1 << 20, 1 << 22, 1 << 24), 64
REPEATS = 10
RACES = {"cpu": ("index_put", "put", "getitem_backward"), "cuda": ("index_add", "scatter_add")}


def controls(torch: "Any", ask: "Dict[str, Any]", say: "Say") -> None:
    """Print the results of a device's controls, by default and cured.

    This process has threads of its own.
    """
    torch.set_num_threads(max(2, torch.get_num_threads()))
    device = ask["device"]
    if ask["threads"]:
        for name in RACES[device]:
            say({"begin": name})
            say({"control": name, "modes": _race(torch, device, name)})
    say({"begin": "empty_memory"})
    modes = {
        mode: _run_repeatedly(lambda: _read_uninitialised(torch, device), torch, mode, 20)
        for mode in ("default", "strict")
    }
    say({"control": "empty_memory", "modes": modes})
    if device == "cpu":
        say({"begin": "completion_order"})
        say({"control": "completion_order", "modes": _completion(torch)})


def _run_repeatedly(
    compute: "Callable[[], Any]", torch: "Any", mode: str, repeats: int = REPEATS
) -> "Dict[str, Any]":
    """Run a computation some times in a mode.

    Return it in the form of a probe's results.
    """
    began = time.perf_counter()
    # The same switch as use_deterministic_algorithms, without its import of torch's compiler, which takes seconds.
    torch.set_deterministic_debug_mode("error" if mode == "strict" else "default")
    try:
        digests = [digest([compute()]) for _ in range(repeats)]
    except Exception as err:
        return {"error": f"{type(err).__name__}: {err}"[:2000]}
    finally:
        torch.set_deterministic_debug_mode("default")
    return {"digests": digests, "seconds": time.perf_counter() - began}


def _race(torch: "Any", device: str, name: str) -> "Dict[str, Any]":
    """Return {mode: results} of a race.

    The work grows until a drift is seen; then it is repeated in strict mode.

    `ones` adds ones instead, which give the same sum in any order: a drift there would be the harness's own.
    """
    for size in SIZES[:-1]:
        modes = _race_at(torch, device, name, size)
        if len(set(modes["default"].get("digests", ()))) > 1:
            return modes
    return _race_at(torch, device, name, SIZES[-1])


def _race_at(torch: "Any", device: str, name: str, size: int) -> "Dict[str, Any]":
    private = torch.Generator()
    private.manual_seed(0)
    index = torch.randint(0, BINS, (size,), generator=private).to(device)
    values = torch.randn(size, generator=private).to(device)
    ones = torch.ones_like(values)
    return {
        "default": _run_repeatedly(lambda: _add(torch, name, index, values), torch, "default"),
        "strict": _run_repeatedly(lambda: _add(torch, name, index, values), torch, "strict"),
        "ones": _run_repeatedly(lambda: _add(torch, name, index, ones), torch, "default"),
    }


def _add(torch: "Any", name: str, index: "Any", values: "Any") -> "Any":
    start = torch.zeros(BINS, device=values.device)
    if name == "index_put":
        return start.index_put_((index,), values, accumulate=True)
    if name == "put":
        return start.put_(index, values, accumulate=True)
    if name == "getitem_backward":
        start.requires_grad_()
        return torch.autograd.grad((start[(index,)] * values).sum(), start)[0]
    if name == "index_add":
        return start.index_add_(0, index, values)
    return start.scatter_add_(0, index, values)


def _read_uninitialised(torch: "Any", device: str) -> "Any":
    """Return uninitialised memory, after dirty memory was freed."""
    dirty = [torch.empty(24, device=device).fill_(random.SystemRandom().random()) for _ in range(50)]
    del dirty
    return torch.empty(24, device=device)


def _completion(torch: "Any") -> "Dict[str, Any]":
    """Sum the results of eight threads, as they come and in order.

    Torch's switch does not affect this.
    """

    def compute(ordered: bool) -> "Any":
        private = torch.Generator()
        private.manual_seed(0)
        values = torch.randn(8, 1024, generator=private) * torch.pow(10.0, torch.arange(8.0))[:, None]
        parts: "List[Any]" = []

        def work(number: int) -> None:
            time.sleep(random.SystemRandom().random() / 500)
            parts.append((number, values[number] / 3))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        total = torch.zeros(1024)
        for _, part in sorted(parts, key=lambda pair: pair[0]) if ordered else parts:
            total += part
        return total

    modes = {"default": _run_repeatedly(lambda: compute(False), torch, "default", 20)}
    # Under another name than `strict`: a drift there is expected, too.
    modes["strict cannot help"] = _run_repeatedly(lambda: compute(False), torch, "strict", 20)
    modes["cured"] = _run_repeatedly(lambda: compute(True), torch, "default", 20)
    return modes


# In fresh processes, with the standard library alone.
SET_ORDER = """
weights = {"layer%d" % i: [((i * k) % 97 - 48.3) * 1.1 ** (i % 40) for k in range(1, 9)] for i in range(100)}
totals = [0.0] * 8
for name in set(weights):
    totals = [total + part for total, part in zip(totals, weights[name])]
print([total.hex() for total in totals])
"""
UNSEEDED = "import random, sys; print(random.random().hex(), 'reprobuild_runtime.startup' in sys.modules)"


def list_fresh_controls(cured: "Dict[str, str]") -> "List[Dict[str, Any]]":
    """Return controls that are fresh processes.

    Each has a name, code and options, by default and cured.

    Args:
        cured: the environment with the seed.
    """
    environment = os.environ  # noqa: TID251  a child's is made of it
    plain = {key: value for key, value in environment.items() if not key.startswith("REPROBUILD_")}
    plain.pop("PYTHONHASHSEED", None)
    bare = [sys.executable, "-S", "-c"]
    return [
        {
            "name": "set_order", "why": "PYTHONHASHSEED cures it; torch's switch does not know of it",
            "default": ([*bare, SET_ORDER], plain), "cured": ([*bare, SET_ORDER], {**plain, **cured}),
        },
        {
            "name": "unseeded", "why": "the start-up hook cures it; torch's switch does not know of it",
            "default": ([*bare, UNSEEDED], plain), "cured": ([sys.executable, "-c", UNSEEDED], {**plain, **cured}),
        },
    ]  # fmt: skip
