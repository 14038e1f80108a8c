"""The workload: a command in fresh containers with one seed.

The files of the runs are compared.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NamedTuple

import msgspec

from reprobuild.engines.model import Engine, Task
from reprobuild.verify.verdict import WorkComparison
from reprobuild.verify.workload.compare import compare_runs, refuse_failures
from reprobuild.verify.workload.conditions import RUNS
from reprobuild.verify.workload.container import (
    OUTPUTS,
    PYTHON,
    WorkloadRun,
    collecting_command,
    run_work_task,
)
from reprobuild.verify.workload.disturbances import compare_disturbed
from reprobuild.verify.workload.judge import display_line
from reprobuild.verify.workload.mounts import Mounts
from reprobuild.verify.workload.rounds import merge_rounds
from reprobuild.verify.workload.uncompared import add_uncompared, keep_written
from reprobuild.verify.workload.work import Work, make_work_task

_NOTHING = (PYTHON, "-I", "-S", "-c", "pass")


class ComparedWork(NamedTuple):
    """The comparisons of a workload, and the number and the mean seconds of its undisturbed runs."""

    comparisons: list[WorkComparison]
    runs: int
    seconds: float


def compare_work(
    work: Work, seed: int, reference: str, engine: Engine, env: Mapping[str, str], *, gpus: str = "",
    say: Callable[[str], None] = lambda _: None, mounts: Mounts | None = None,
    wrap: Callable[[Task], AbstractContextManager[Task]] = nullcontext,
) -> ComparedWork:  # fmt: skip
    """Run a command in fresh containers and compare its files.

    All runs have one seed. The files of each run are compared with those of the first. A budget of time ends with the
    first difference.

    Another container of the image reads the files, so that untrusted files are not read outside of one.

    Args:
        reference: the image's name in the engine.
        gpus: the GPUs that the command sees, as `Task.gpus` has them.
        mounts: the workload's mounts before the first run; they are read here if None.
        wrap: gives each run's task what it needs for its time.

    Raises:
        EngineError: the command failed in the first two runs, its files are unavailable, or the engine failed.
    """
    if not work.artefacts:
        missing = WorkComparison(
            name="workload", verdict="inconclusive", detail="it names no outputs to compare"
        )
        return ComparedWork(comparisons=[missing], runs=work.runs, seconds=0.0)
    conditions = work.conditions
    mounts = mounts or Mounts(conditions.volumes, conditions.read_only, say)
    with tempfile.TemporaryDirectory(prefix="reprobuild-") as directory:
        times = "twice" if work.runs == RUNS else f"{work.runs} times"
        say(f"your work, {times}{' or more' if work.seconds else ''}: {work.shown_text}")
        began = time.monotonic()
        runs = _Runs(work, seed, reference, engine, env, gpus, mounts, wrap, Path(directory))
        first = runs.run()
        rounds: list[list[WorkComparison]] = []
        indexes = [first.index and keep_written(first.index)]
        while work.fits_another_run(len(indexes), time.monotonic() - began):
            other = runs.run()
            if not rounds:
                refuse_failures(work, (first, other))
            rounds.append(runs.compare(first, other))
            indexes.append(other.index and keep_written(other.index))
            shutil.rmtree(other.folder)
            if work.seconds and any(comparison.verdict != "identical" for comparison in rounds[-1]):
                break
        seconds = (time.monotonic() - began) / len(indexes)
        comparisons = add_uncompared(merge_rounds(rounds), [index for index in indexes if index])
        if all(comparison.verdict == "identical" for comparison in comparisons):
            comparisons += compare_disturbed(
                work.disturbances, first, runs.run, runs.probe, runs.compare, say
            )
        elif work.disturbances:
            say("your work has no result that a disturbance could change: it runs under no disturbance")
        return ComparedWork(comparisons=comparisons, runs=len(indexes), seconds=seconds)


class _Runs:
    """The runs of one workload, each in a fresh container and a directory of its own."""

    def __init__(
        self, work: Work, seed: int, reference: str, engine: Engine, env: Mapping[str, str], gpus: str,
        mounts: Mounts, wrap: Callable[[Task], AbstractContextManager[Task]], directory: Path,
    ) -> None:  # fmt: skip
        self._work, self._seed, self._gpus = work, seed, gpus
        self._reference, self._engine, self._env = reference, engine, env
        self._mounts, self._wrap, self._directory = mounts, wrap, directory
        self._count = 0
        self._changed: Sequence[str] = ()

    def run(self, before: Sequence[str] = ()) -> WorkloadRun:
        """Run the command with some words before it."""
        if self._count:
            self._changed = self._mounts.changed()  # the first run read the earlier contents
        words = collecting_command(self._work.artefacts, (*before, *self._work.command))
        return self._start(make_work_task(self._work, self._seed, words, self._gpus))

    def probe(self, before: Sequence[str]) -> WorkloadRun:
        """Run some words before a command that does nothing, where no file of the workload is."""
        words = collecting_command((), (*before, *_NOTHING))
        task = make_work_task(self._work, self._seed, words, self._gpus)
        return self._start(msgspec.structs.replace(task, volumes=(), read_only=frozenset()))

    def _start(self, task: Task) -> WorkloadRun:
        self._count += 1
        folder = self._directory / str(self._count)
        folder.mkdir()
        task = msgspec.structs.replace(task, outputs=OUTPUTS, kept=folder)
        with self._wrap(task) as wrapped:
            return run_work_task(self._work, wrapped, self._reference, self._engine, self._env)

    def compare(self, first: WorkloadRun, second: WorkloadRun) -> list[WorkComparison]:
        """Compare the last run with an earlier one."""
        comparisons = compare_runs(self._work, (first, second), self._reference, self._engine, self._env)
        return _with_mounts(comparisons, self._changed or self._mounts.changed(writable=False))


def _with_mounts(comparisons: Sequence[WorkComparison], changed: Sequence[str]) -> list[WorkComparison]:
    """Return the comparisons of two runs, with changed mounts.

    Runs that read different files do not show drift.

    Args:
        changed: a line for each mount that changed for the second run.
    """
    if not changed:
        return list(comparisons)
    first, *rest = [
        _mark_unknown(comparison, changed) if comparison.verdict == "drift" else comparison
        for comparison in comparisons
    ]
    return [msgspec.structs.replace(first, warnings=(*changed, *first.warnings)), *rest]


def _mark_unknown(drifted: WorkComparison, changed: Sequence[str]) -> WorkComparison:
    detail = f"{'; '.join(changed)} between the runs, which may be why they differ: {drifted.detail}"
    return msgspec.structs.replace(drifted, verdict="inconclusive", detail=display_line(detail))
