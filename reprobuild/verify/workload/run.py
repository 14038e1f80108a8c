"""The workload: a command in fresh containers with one seed.

The files of the runs are compared.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import msgspec

from reprobuild.engines.model import Engine, Task
from reprobuild.verify.verdict import WorkComparison
from reprobuild.verify.workload.compare import compare_runs
from reprobuild.verify.workload.conditions import RUNS
from reprobuild.verify.workload.container import OUTPUTS, WorkloadRun, collecting_command, run_work_task
from reprobuild.verify.workload.judge import display_line
from reprobuild.verify.workload.mounts import Mounts
from reprobuild.verify.workload.rounds import merge_rounds
from reprobuild.verify.workload.work import Work, make_work_task


def compare_work(
    work: Work, seed: int, reference: str, engine: Engine, env: Mapping[str, str], *, gpus: str = "",
    say: Callable[[str], None] = lambda _: None, mounts: Mounts | None = None,
    wrap: Callable[[Task], AbstractContextManager[Task]] = nullcontext,
) -> list[WorkComparison]:  # fmt: skip
    """Run a command in fresh containers and compare its files.

    All runs have one seed. The files of each run are compared with those of the first.

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
        return [
            WorkComparison(name="workload", verdict="inconclusive", detail="it names no outputs to compare")
        ]
    conditions = work.conditions
    mounts = mounts or Mounts(conditions.volumes, conditions.read_only, say)
    with tempfile.TemporaryDirectory(prefix="reprobuild-") as directory:
        say(f"your work, {'twice' if work.runs == RUNS else f'{work.runs} times'}: {work.shown_text}")

        def run(number: int) -> WorkloadRun:
            folder = Path(directory, str(number))
            folder.mkdir()
            words = collecting_command(work.artefacts, work.command)
            task = make_work_task(work, seed, words, gpus)
            task = msgspec.structs.replace(task, outputs=OUTPUTS, kept=folder)
            with wrap(task) as wrapped:
                return run_work_task(work, wrapped, reference, engine, env)

        first = run(1)
        rounds: list[list[WorkComparison]] = []
        for number in range(2, work.runs + 1):
            changed = mounts.changed()  # the first run read the earlier contents
            other = run(number)
            comparisons = compare_runs(work, (first, other), reference, engine, env)
            rounds.append(_with_mounts(comparisons, changed or mounts.changed(writable=False)))
            shutil.rmtree(other.folder)
        return merge_rounds(rounds)


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
