"""Controls of an image without torch.

They are computations with NumPy that are known to drift, and their cures.

They are a race of threads, uninitialised memory, and an unseeded draw. Each drifts by default and stops if it is cured;
if one does not, a drift would not have been seen here.
"""

import functools
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

RACES = ("thread_sum",)
OTHERS = ("completion_order", "empty_array", "unseeded_generator")
# Tried in turn until a drift is seen: on a busy machine one thread may be done before the next one begins.
SIZES, THREADS, REPEATS = (1 << 14, 1 << 17, 1 << 20), 8, 20
# A draw of NumPy in a fresh process, without and with the start-up hook.
UNSEEDED = (
    "import sys; sys.path[:] = {paths!r}; import numpy.random; "
    "print(numpy.random.random_sample().hex(), 'reprobuild_runtime.startup' in sys.modules)"
)


def controls(numpy: "Any", ask: "Dict[str, Any]", say: "Say") -> None:
    """Print the results of each control, by default and cured."""
    if ask["threads"]:
        say({"begin": "thread_sum"})
        say({"control": "thread_sum", "modes": _race(numpy)})
    for name, compute in (
        ("completion_order", _completion), ("empty_array", _read_uninitialised), ("unseeded_generator", _draw_unseeded),
    ):  # fmt: skip
        say({"begin": name})
        modes = {
            mode: _run_repeatedly(functools.partial(compute, numpy, mode == "cured"))
            for mode in ("default", "cured")
        }
        say({"control": name, "modes": modes})


def make_fresh_control(cured: "Dict[str, str]") -> "Dict[str, Any]":
    """Return the control of a fresh process.

    It is NumPy's global generator without the start-up hook, and with it.

    Args:
        cured: the environment with the seed.
    """
    code = UNSEEDED.format(paths=[path for path in sys.path if path])
    environ = dict(os.environ)  # noqa: TID251  a child's is made of it
    return {
        "name": "unseeded_numpy", "why": "the start-up hook cures it",
        "default": ([sys.executable, "-S", "-c", code], environ),
        "cured": ([sys.executable, "-c", code], {**environ, **cured}),
    }  # fmt: skip


def _run_repeatedly(compute: "Callable[[], Any]") -> "Dict[str, Any]":
    """Run a computation some times, and return its digests or error."""
    began = time.perf_counter()
    try:
        digests = [digest([compute()]) for _ in range(REPEATS)]
    except Exception as err:
        return {"error": f"{type(err).__name__}: {err}"[:2000]}
    return {"digests": digests, "seconds": time.perf_counter() - began}


def _race(numpy: "Any") -> "Dict[str, Any]":
    """Return {mode: results} of the thread race.

    The work grows until a drift is seen; then it is summed in the order of the threads' numbers.
    """
    modes: "Dict[str, Any]" = {}
    for size in SIZES:
        values = _sum_parts(numpy, size)
        ones = numpy.ones_like(values)
        modes = {
            "default": _run_repeatedly(lambda: _sum_in_order(numpy, values, ordered=False)),  # noqa: B023  called at once
            "cured": _run_repeatedly(lambda: _sum_in_order(numpy, values, ordered=True)),  # noqa: B023  called at once
            "ones": _run_repeatedly(lambda: _sum_in_order(numpy, ones, ordered=False)),  # noqa: B023  called at once
        }
        if len(set(modes["default"].get("digests", ()))) > 1:
            break
    return modes


def _sum_parts(numpy: "Any", size: int) -> "Any":
    return numpy.random.RandomState(0).standard_normal((THREADS, 64, size // 64))


def _sum_in_order(numpy: "Any", values: "Any", *, ordered: bool) -> "Any":
    """Return the sum of the threads' parts, in one of two orders.

    They are the order of arrival, and that of the numbers.

    They start together, and each computes without the interpreter's lock.
    """
    parts: "List[Any]" = []
    together = threading.Barrier(THREADS)

    def work(number: int) -> None:
        together.wait()
        parts.append((number, numpy.cbrt(values[number]).sum(axis=1)))

    return _collected(numpy, work, parts, ordered)


def _completion(numpy: "Any", ordered: bool) -> "Any":
    """Sum the parts of eight threads, in one of two orders.

    The threads wait for random times. The orders are that of arrival, and that of the numbers.
    """
    values = _sum_parts(numpy, 1024)
    parts: "List[Any]" = []

    def work(number: int) -> None:
        time.sleep(random.SystemRandom().random() / 500)
        parts.append((number, values[number] / 3))

    return _collected(numpy, work, parts, ordered)


def _collected(numpy: "Any", work: "Callable[[int], None]", parts: "List[Any]", ordered: bool) -> "Any":
    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    total = numpy.zeros_like(parts[0][1])
    for _, part in sorted(parts, key=lambda pair: pair[0]) if ordered else parts:
        total = total + part
    return numpy.asarray(total)


def _read_uninitialised(numpy: "Any", cured: bool) -> "Any":
    """Return uninitialised memory, zeros if cured."""
    dirty = [numpy.full(24, random.SystemRandom().random()) for _ in range(50)]
    del dirty
    return numpy.zeros(24) if cured else numpy.empty(24)


def _draw_unseeded(numpy: "Any", cured: bool) -> "Any":
    """Draw from an entropy-based generator, or a seeded one."""
    seed = 7 if cured else random.SystemRandom().randrange(2**32)
    return numpy.random.RandomState(seed).standard_normal(8)
