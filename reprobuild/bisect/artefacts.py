"""The oracle of output files, by the comparison of `verify --workload`."""

from __future__ import annotations

import shlex
from pathlib import Path

from reprobuild.bisect.oracle import ExactOracle, Outcome
from reprobuild.bisect.trial import Laboratory
from reprobuild.errors import EngineError
from reprobuild.lock.model import Lock
from reprobuild.verify.workload.compare import compare_runs
from reprobuild.verify.workload.container import INDEX, WorkloadRun, read_index
from reprobuild.verify.workload.work import Work


def artefact_oracle(laboratory: Laboratory, lock: Lock, ignored: tuple[str, ...]) -> ExactOracle:
    """Return the oracle of output files.

    Args:
        laboratory: its command names the files.
        lock: of the image in which files are read.
        ignored: keys of values that may differ.
    """
    command = laboratory.command
    work = Work(
        command=command.arguments, artefacts=command.artefacts, ignored=ignored, text=shlex.join(command.arguments)
    )  # fmt: skip
    answers: dict[tuple[str, str], bool] = {}

    def same(first: Outcome, second: Outcome) -> bool:
        if first.code != second.code or first.code:
            return first.code == second.code
        if first.content == second.content:
            return True
        key = first.files[INDEX], second.files[INDEX]
        if key not in answers:
            answers[key] = _compare(laboratory, lock, work, first, second)
        return answers[key]

    return ExactOracle("output files", same, _describe)


def _describe(outcome: Outcome) -> str:
    if outcome.code:
        return f"exit code {outcome.code}"
    count = len(outcome.files) - 1
    return f"{count} file{'s' * (count != 1)}, digest {outcome.content[:12]}"


def _compare(laboratory: Laboratory, lock: Lock, work: Work, first: Outcome, second: Outcome) -> bool:
    """Compare the files of two runs, in a container of a lock's image."""
    context = laboratory.context
    reference = laboratory.image_name(lock, "a")
    with context.store.scratch() as scratch:
        runs = tuple(
            _restore(laboratory, outcome, scratch / str(number))
            for number, outcome in enumerate((first, second))
        )
        comparisons = compare_runs(work, (runs[0], runs[1]), reference, laboratory.engine, context.env)
    return all(comparison.verdict == "identical" for comparison in comparisons)


def _restore(laboratory: Laboratory, outcome: Outcome, folder: Path) -> WorkloadRun:
    """Return a remembered run with its files.

    Raises:
        EngineError: its index is damaged.
    """
    store = laboratory.context.store
    folder.mkdir()
    for name, sha256 in outcome.files.items():
        (folder / name).hardlink_to(store.verified(sha256, f"the output {name} of a trial"))
    index = read_index(folder)
    if index is None:
        raise EngineError("the list of a trial's files is damaged", hint="run it again with --afresh")
    return WorkloadRun(code=index.code, folder=folder, index=index, tail="")
