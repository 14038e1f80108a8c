"""One fresh process of the determinism tests without torch.

It prints its results as lines of JSON.

python child.py '{"task": "probes", "mode": "profile", "seed": 7, ...}'
"""

import os
import random
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
if sys.path and os.path.abspath(sys.path[0]) == _HERE:  # run by its path: our file names must hide no module
    del sys.path[0]
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(_HERE)))
if _ROOT not in sys.path:
    sys.path.insert(0, _ROOT)

from reprobuild_runtime.probes import child, expectations  # noqa: E402  after the paths
from reprobuild_runtime.probes.arrays import bench, blas, controls  # noqa: E402  after the paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List

    from reprobuild_runtime.probes.bench import RuntimeProbe

    Say = Callable[[Dict[str, Any]], None]

MODULES = ("algebra", "sums", "transforms", "draws", "science", "learning", "compiled", "graphs")


def register() -> "Dict[str, RuntimeProbe]":
    """Import the files of probes, and return all probes."""
    from importlib import import_module

    for name in MODULES:
        import_module("reprobuild_runtime.probes.arrays." + name)
    return bench.PROBES


def probes(numpy: "Any", ask: "Dict[str, Any]", say: "Say") -> None:
    """Run the probes of `names` in this process."""
    table = bench.ArrayBench(numpy, ask["seed"])  # first of all: it keeps the states of the generators
    say({"threads": blas.threads(blas.libraries())})
    disturb = ArrayDisturbance(numpy).disturb if ask["stress"] else _do_nothing
    child.each(register(), table, ask, disturb, say)


def print_first_facts(numpy: "Any", _ask: "Dict[str, Any]", say: "Say") -> None:
    """Print a start's draws, the platform, and the comparison's controls."""
    from reprobuild_runtime.probes.arrays.about import fingerprint_process
    from reprobuild_runtime.probes.arrays.comparator import comparator
    from reprobuild_runtime.probes.start import start

    say({"start": start()})
    say({"fingerprint": fingerprint_process(numpy)})
    say({"expectations": expectations.read(None)})
    say({"comparator": comparator(numpy)})


class ArrayDisturbance:
    """A disturbance of free memory before each run of a probe.

    It is left dirty and shifted, each time differently.
    """

    def __init__(self, numpy: "Any") -> None:
        self._numpy, self._random = numpy, random.SystemRandom()
        self._kept: "List[Any]" = []

    def disturb(self) -> None:
        """Fill and free some arrays."""
        draw = self._random
        self._kept = self._kept[-4:]
        for _ in range(6):
            dirty = self._numpy.empty(
                draw.choice((24, 4096, 65536, 1 << 20)) + draw.randrange(1, 513), dtype="u1"
            )
            dirty.fill(draw.randrange(1, 256))
            if draw.random() < 0.3:
                self._kept.append(dirty)  # the next allocations come from elsewhere


def _do_nothing() -> None:
    pass


TASKS: "Dict[str, Any]" = {"probes": probes, "scout": print_first_facts, "controls": controls.controls}


def main(argv: "List[str]") -> int:
    """Do one task; always return 0.

    The last line reports a failure.
    """
    return child.main(argv, "numpy", TASKS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
