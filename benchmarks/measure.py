"""The measurement and judgement of figures.

It has two commands in turn, medians and minima, and the machine's state.

A figure is a ratio if there is something to compare with, so that a slow or busy machine slows both sides. The two
sides take turns, and the first one changes each round, so that a change of load in the middle of a run meets both. The
median decides; the minimum, which load can hardly raise, stands beside it.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PROGRAM = (sys.executable, "-c", "from reprobuild.cli.main import main; main()")


class NotRunError(Exception):
    """A figure that cannot be measured here, with the reason."""


@dataclass(frozen=True)
class Figure:
    """One measured value.

    Attributes:
        name: the measured quantity.
        value: in `unit`: "x" for a ratio, "s" for seconds, "MiB" for memory; None if it was not run.
        against: the other side of a ratio, or the reason for a missing value.
        limit: the most that is good; None for a figure that is only reported.
        modules: the parts of the program whose code decides it.
        details: the values it was computed from.
    """

    name: str
    value: float | None
    unit: str
    against: str
    limit: float | None = None
    modules: Sequence[str] = ()
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """Return `met`, `missed`, `reported` (no limit) or `not run`."""
        if self.value is None:
            return "not run"
        if self.limit is None:
            return "reported"
        return "met" if self.value <= self.limit else "missed"


@dataclass(frozen=True)
class Sample:
    """The times of one run.

    `wall` is by the clock, `cpu` that of the processor, by the process and its children.
    """

    wall: float
    cpu: float


def time_process(
    argv: Sequence[str], env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Sample:
    """Run a program to its end, and return its times.

    Its output is read, and shown if it fails.
    """
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        argv, env=None if env is None else dict(env), cwd=cwd, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        tail = done.stdout.decode(errors="replace")[-2000:]
        raise RuntimeError(f"{argv[0]} exited {done.returncode}:\n{tail}")
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return Sample(wall, cpu)


# Starts a program by fork(2) and prints its greatest resident memory in KiB. A process that subprocess starts itself
# keeps the peak of its parent across vfork(2) and exec.
_STARTER = """
import os, sys
child = os.fork()
if child == 0:
    os.execv(sys.argv[1], sys.argv[1:])
_, status, usage = os.wait4(child, 0)
print(usage.ru_maxrss, file=sys.stderr)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def peak_of(argv: Sequence[str], code: int = 0) -> tuple[int, float, bytes]:
    """Run a program, and return memory, seconds and output.

    It has to exit with `code`; memory is the greatest resident size in KiB.

    Raises:
        RuntimeError: it exited otherwise.
    """
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _STARTER, *argv],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    seconds = time.perf_counter() - began
    if done.returncode != code:
        raise RuntimeError(f"{argv[-3:]} exited {done.returncode}, not {code}: {done.stderr[-500:]!r}")
    return int(done.stderr.split()[-1]), seconds, done.stdout


def alternate(
    one: Callable[[], Sample], other: Callable[[], Sample], pairs: int
) -> tuple[list[Sample], list[Sample]]:
    """Measure two commands in turn.

    One run of each goes before and does not count.
    """
    one(), other()
    ours: list[Sample] = []
    theirs: list[Sample] = []
    for turn in range(pairs):
        both = [(one, ours), (other, theirs)]
        for measure, samples in both if turn % 2 == 0 else reversed(both):
            samples.append(measure())
    return ours, theirs


def compare(
    name: str, ours: Sequence[Sample], theirs: Sequence[Sample], against: str, *,
    limit: float | None = None, modules: Sequence[str] = (),
) -> Figure:  # fmt: skip
    """Return the figure of two series of equal length.

    It is the ratio of their medians on the clock.
    """
    wall, wall_other = [s.wall for s in ours], [s.wall for s in theirs]
    details = {
        "pairs": len(ours),
        "ours": spread(wall),
        "theirs": spread(wall_other),
        "ratio of minima": round(min(wall) / min(wall_other), 3),
        "median of the pairs' ratios": round(
            statistics.median(a / b for a, b in zip(wall, wall_other, strict=True)), 3
        ),
        "ratio of processor time": round(sum(s.cpu for s in ours) / sum(s.cpu for s in theirs), 3),
    }
    value = statistics.median(wall) / statistics.median(wall_other)
    return Figure(name, value, "x", against, limit=limit, modules=modules, details=details)


def spread(seconds: Sequence[float]) -> dict[str, float]:
    """Return least, median and greatest, in seconds."""
    middle = statistics.median(seconds)
    return {"min": round(min(seconds), 4), "median": round(middle, 4), "max": round(max(seconds), 4)}
