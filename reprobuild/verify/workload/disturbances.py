"""The workload once more under each of some disturbances."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence

import msgspec

from reprobuild.errors import UsageError
from reprobuild.infra.display import display_text
from reprobuild.verify.verdict import WorkComparison
from reprobuild.verify.workload.container import PROGRAMS, PYTHON, WorkloadRun
from reprobuild.verify.workload.judge import display_line

# Each name of `reprobuild_runtime/artefacts/disturb.py`, and its words.
DISTURBANCES = {
    "threads": "with another number of threads",
    "processors": "on half of the processors",
    "load": "beside a load on each processor",
    "memory": "with less free memory",
    "hash-seed": "with another hash seed",
    "directory-order": "with directories in another order",
    "clock": "on another day",
}
ALL = "all"
AHEAD = 17_298_183  # seconds of the clock, as in `reprobuild_runtime/disturbed.py`
_PROGRAM = f"{PROGRAMS}/disturb.py"
_NOT_POSSIBLE, _REASON = 125, "reprobuild: not possible: "
_OLDER = "the image was made by an older reprobuild, which has no disturbances: build it again from its lock"

# Runs the workload with some words before its command.
Run = Callable[[Sequence[str]], WorkloadRun]
Compare = Callable[[WorkloadRun, WorkloadRun], list[WorkComparison]]


def select_disturbances(names: Sequence[str]) -> tuple[str, ...]:
    """Return the requested disturbances in the order of `DISTURBANCES`; `ALL` requests each.

    Raises:
        UsageError: a name is unknown.
    """
    known = (ALL, *DISTURBANCES)
    for name in names:
        if name not in known:
            raise UsageError(
                f"{display_text(str(name))!r} is no disturbance",
                hint=f"they are: {', '.join(known)}",
            )
    return tuple(name for name in DISTURBANCES if name in names or ALL in names)


def compare_disturbed(
    names: Sequence[str], first: WorkloadRun, run: Run, probe: Run, compare: Compare, say: Callable[[str], None]
) -> list[WorkComparison]:  # fmt: skip
    """Run a workload under each disturbance, and compare with its first run.

    If a result differs, a second run under the same disturbance tells whether the result depends on it, or drifts.

    Args:
        names: of `DISTURBANCES`.
        first: the run without a disturbance.
        run: runs the workload with some words before its command.
        probe: runs some words before a command that does nothing, without the workload.
        compare: compares two runs.
        say: logs each step.

    Raises:
        EngineError: the engine failed.
    """
    comparisons = []
    for name in names:
        say(f"your work once more, {DISTURBANCES[name]}")

        disturbed = _run_disturbed(name, run)
        answer = _refusal(name, disturbed, probe) or _judge(compare(first, disturbed))
        if answer.verdict == "drift":
            repeated = _run_disturbed(name, run)
            again = _judge(compare(disturbed, repeated))
            answer = msgspec.structs.replace(answer, detail=_explain(answer.detail, again))
            shutil.rmtree(repeated.folder)
        shutil.rmtree(disturbed.folder)
        comparisons.append(msgspec.structs.replace(answer, name=f"disturbance {name}", condition="disturbed"))
    return comparisons


def _run_disturbed(name: str, run: Run) -> WorkloadRun:
    """Run the workload under a disturbance; its index has the times that its programs read."""
    done = run(_words(name))
    if name != "clock" or done.index is None:
        return done
    index = msgspec.structs.replace(
        done.index, began=done.index.began + AHEAD, ended=done.index.ended + AHEAD
    )
    return msgspec.structs.replace(done, index=index)


def _words(name: str) -> list[str]:
    return [PYTHON, "-I", "-S", _PROGRAM, name, "--"]


def _refusal(name: str, run: WorkloadRun, probe: Run) -> WorkComparison | None:
    """Return the comparison of a run that could not be disturbed.

    The workload can print the reason and exit with the code of a refusal, so a container without it decides.
    """
    if run.code == _NOT_POSSIBLE:
        answer = probe(_words(name))
        shutil.rmtree(answer.folder)
        if answer.code == _NOT_POSSIBLE and _REASON in answer.tail:
            reason = answer.tail.rpartition(_REASON)[2].splitlines()[0]
            return WorkComparison(name="", verdict="not-applicable", detail=display_line(reason))
    if run.code and _PROGRAM in run.tail:
        return WorkComparison(name="", verdict="inconclusive", detail=_OLDER)
    return None


def _judge(comparisons: Sequence[WorkComparison]) -> WorkComparison:
    """Return one comparison for all outputs: the first that differs, or else the first without an answer."""
    for verdict in ("drift", "inconclusive"):
        for comparison in comparisons:
            if comparison.verdict == verdict:
                detail = display_line(f"{comparison.name}: {comparison.detail}")
                return WorkComparison(
                    name="",
                    verdict=verdict,
                    detail=detail,
                    details=comparison.details,
                    warnings=comparison.warnings,
                )
    return WorkComparison(name="", verdict="identical")


def _explain(detail: str, again: WorkComparison) -> str:
    """Return the detail of a result that differs, with the answer on two runs under the same disturbance."""
    answers = {
        "identical": "two such runs are the same, so the result depends on the disturbance",
        "drift": "two such runs differ, too, so the result drifts",
    }
    return f"{answers.get(again.verdict, 'two such runs cannot be compared')}: {detail}"
