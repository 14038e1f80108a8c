"""One fresh process of the determinism tests.

It prints its results as lines of JSON to standard output.

    python child.py '{"task": "probes", "mode": "strict", "device": "cpu", "seed": 7, ...}'

Each line is written as soon as it is known, so that the results of a process that dies or hangs are not lost. Output of
libraries to standard output goes to standard error.
"""

import json
import os
import sys
import time
import warnings

_HERE = os.path.dirname(os.path.abspath(__file__))
if sys.path and os.path.abspath(sys.path[0]) == _HERE:  # run by its path: our file names must hide no module
    del sys.path[0]
if os.path.dirname(os.path.dirname(_HERE)) not in sys.path:
    sys.path.insert(0, os.path.dirname(os.path.dirname(_HERE)))

from reprobuild_runtime.digest import digest  # noqa: E402  after the paths
from reprobuild_runtime.probes import bench, controls, expectations, ranks  # noqa: E402  after the paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List

    Say = Callable[[Dict[str, Any]], None]

MODULES = (
    "scatter", "reductions", "convolution", "normalisation", "attention", "recurrent", "losses", "algebra",
    "resampling", "draws", "training", "compiled", "optional",
)  # fmt: skip


def register() -> "Dict[str, bench.RuntimeProbe]":
    """Import the files of probes, and return all probes."""
    from importlib import import_module

    for name in MODULES:
        import_module("reprobuild_runtime.probes." + name)
    return bench.PROBES


def set_mode(torch: "Any", mode: str) -> None:
    """Set torch's switches for a mode.

    The image's profile stays as the hooks set it, except for `default`.
    """
    if mode == "default":
        torch.backends.cudnn.deterministic = False
        torch.backends.cudnn.benchmark = False
        if torch.are_deterministic_algorithms_enabled():
            torch.use_deterministic_algorithms(False)
    elif mode == "strict":
        torch.use_deterministic_algorithms(True)
    elif mode == "warn":
        torch.use_deterministic_algorithms(True, warn_only=True)  # from torch 1.11 on


def several_threads(torch: "Any") -> None:
    """Let torch compute with at least two threads, if possible.

    It needs two processors. One thread has only one order.
    """
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if torch.get_num_threads() < 2 <= cpus:
        torch.set_num_threads(2)


def probes(torch: "Any", ask: "Dict[str, Any]", say: "Say") -> None:
    """Run the probes of `names` in this process, in a mode.

    `profile` has the threads that the image sets.
    """
    from reprobuild_runtime.probes.stress import Disturbance

    set_mode(torch, ask["mode"])
    if ask["mode"] != "profile":
        several_threads(torch)
    say({"threads": torch.get_num_threads()})
    table = bench.Bench(torch, ask["device"], ask["seed"], ask["mode"])
    disturb = Disturbance(torch, ask["device"]).disturb if ask["stress"] else _do_nothing
    each(register(), table, ask, disturb, say)


def each(
    known: "Dict[str, Any]", table: "Any", ask: "Dict[str, Any]", disturb: "Callable[[], None]", say: "Say"
) -> None:
    """Run the probes of `names`, and print the results of each."""
    for name in ask["names"]:
        say({"begin": name})
        alive = Alive(say)
        say({"probe": name, **run(known[name], table, ask["repeats"], disturb, alive)})


class Alive:
    """A sign of life of a running probe, at most once a second.

    A silent process is assumed to hang.
    """

    def __init__(self, say: "Say") -> None:
        self._say, self._last = say, time.monotonic()

    def __call__(self) -> None:
        """Print a line if the last one is at least a second old."""
        if time.monotonic() - self._last >= 1:
            self._last = time.monotonic()
            self._say({"alive": True})


def _do_nothing() -> None:
    pass


def run(
    probe: "bench.RuntimeProbe", table: "Any", repeats: int, disturb: "Callable[[], None]" = _do_nothing,
    alive: "Callable[[], None]" = _do_nothing,
) -> "Dict[str, Any]":  # fmt: skip
    """Run a probe some times; return its digests or an error.

    `alive` is called after each run.
    """
    if table.device not in probe.devices:
        return {"skipped": f"not applicable here: it needs a device of the kind {probe.devices[0]}"}
    result: "Dict[str, Any]" = {"digests": [], "milliseconds": []}
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            once = probe.fresh and table.device == "cuda"
            for _ in range(1 if once else min(repeats, probe.most)):
                disturb()
                table.begin(probe.name)
                start = time.perf_counter()
                values = probe.function(table)
                if table.device == "cuda":
                    table.torch.cuda.synchronize()
                result["milliseconds"].append(round((time.perf_counter() - start) * 1000, 3))
                result["digests"] += [digest(outputs) for outputs in (values, *table.others)]
                result["dtype"] = _dtype(values)
                alive()
        except bench.NotHereError as err:
            result["skipped"] = f"not applicable here: {err}"
        except Exception as err:
            result["error"] = f"{type(err).__name__}: {err}"[:2000]
            result["alert"] = (
                expectations.find_alert_operation(str(err)) if isinstance(err, RuntimeError) else ""
            )
    result["shape"] = ", ".join(dict.fromkeys(getattr(table, "shapes", [])))
    result["warned"] = sorted(
        {name for name in (expectations.find_alert_operation(str(w.message)) for w in caught) if name}
    )
    result["seconds"] = round(time.perf_counter() - began, 4)
    return result


def _dtype(values: "List[Any]") -> str:
    kinds = {str(value.dtype).rpartition(".")[2] for value in values if hasattr(value, "dtype")}
    return ", ".join(sorted(kinds))


def print_first_facts(torch: "Any", ask: "Dict[str, Any]", say: "Say") -> None:
    """Print the first facts: draws, platform, torch's documentation.

    The draws are those of a start.
    """
    from reprobuild_runtime.fingerprint import fingerprint
    from reprobuild_runtime.probes.comparator import comparator
    from reprobuild_runtime.probes.start import start

    say({"start": start(torch, ask["device"])})
    cuda = bool(torch.cuda.is_available())
    say({"cuda": cuda, "gpus": torch.cuda.device_count() if cuda else 0})
    say({"fingerprint": fingerprint(torch)})
    say({"expectations": expectations.read(torch.use_deterministic_algorithms.__doc__)})
    say({"comparator": comparator(torch)})


def occupy_gpu(torch: "Any", _ask: "Dict[str, Any]", say: "Say") -> None:
    """Multiply matrices on the GPU until the parent ends.

    The limit is six hours.
    """
    parent, end = os.getppid(), time.monotonic() + 6 * 3600
    work = torch.rand(2048, 2048, device="cuda")
    say({"begin": "occupy"})
    while os.getppid() == parent and time.monotonic() < end:
        for _ in range(20):
            work = (work @ work).tanh()
        torch.cuda.synchronize()


TASKS: "Dict[str, Any]" = {
    "probes": probes, "scout": print_first_facts, "occupy": occupy_gpu, "controls": controls.controls,
    "collective": ranks.collective,
}  # fmt: skip


def main(argv: "List[str]", library: str = "torch", tasks: "Dict[str, Any]" = TASKS) -> int:
    """Do one task; always return 0.

    The last line reports a failure.
    """
    do(json.loads(argv[0]), {}, library, tasks)
    return 0


def do(
    ask: "Dict[str, Any]", about: "Dict[str, Any]", library: str = "torch", tasks: "Dict[str, Any]" = TASKS
) -> bool:
    """Do one task, and return whether it succeeded.

    Args:
        about: added to each printed line.
        library: the probed module; it is imported first.
        tasks: by name.
    """
    from importlib import import_module

    _end_with_parent()
    sys.stdout.flush()
    data = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(line: "Dict[str, Any]") -> None:
        data.write(json.dumps({**about, **line}) + "\n")
        data.flush()

    try:
        module = import_module(library)
    except Exception as err:
        say({f"no {library}": f"{library} does not import: {type(err).__name__}: {err}"})
        return False
    say({"imported": library})
    try:
        tasks[ask["task"]](module, ask, say)
        say({"done": True})
    except Exception as err:
        say({"failed": f"{type(err).__name__}: {err}"[:2000]})
        return False
    return True


def _end_with_parent() -> None:
    """Let Linux end this process when its parent ends.

    Otherwise it would go on computing without use.
    """
    try:
        import ctypes

        ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
    except Exception:  # another system: the parent ends its children itself, unless it is killed
        pass


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
