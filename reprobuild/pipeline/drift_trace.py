"""The part of a check that looks for the cause of a workload's drift."""

from __future__ import annotations

from collections.abc import Callable

from reprobuild.errors import EngineError, InconclusiveError
from reprobuild.pipeline.recorded_work import RecordedWork
from reprobuild.run.options import AUTO
from reprobuild.trace.cause import describe_record
from reprobuild.trace.display import hide_in_findings
from reprobuild.trace.result import describe_test
from reprobuild.trace.rounds import Findings, TraceSearch
from reprobuild.verify.verdict import DriftTrace
from reprobuild.verify.workload.conditions import hide_secrets
from reprobuild.verify.workload.judge import display_line
from reprobuild.verify.workload.run import ComparedWork

MODES = (AUTO, "on", "off")
LONGEST = 60  # seconds of one run, in the mode `auto`: a trace takes some ten runs


def make_trace(
    recorded: RecordedWork | None, mode: str
) -> Callable[[str, ComparedWork], DriftTrace | None] | None:
    """Return a function that explains a drift, from the workload's GPUs and its compared runs.

    Args:
        recorded: the workload, or None.
        mode: one of `MODES`; in the mode `auto` a run of more than `LONGEST` seconds is not traced.
    """
    if recorded is None or mode == "off":
        return None
    say = recorded.context.say

    def trace(gpus: str, compared: ComparedWork) -> DriftTrace | None:
        if mode == AUTO and compared.seconds > LONGEST:
            say(
                f"your work drifts; one run took {compared.seconds:.0f} s, so its cause is looked for with --trace on"
            )
            return None
        say("your work drifts: runs with a recorder look for the cause")
        try:
            with recorded.open(gpus) as containers:
                return summarise(TraceSearch(containers, say).find(compared.runs)[0])
        except (InconclusiveError, EngineError, OSError) as err:  # the answer on the drift stays
            return DriftTrace(why=display_line(hide_secrets(str(err))))

    return trace


def summarise(findings: Findings) -> DriftTrace:
    """Return the findings of a trace for a certificate, without secrets."""
    shown = hide_in_findings(findings)
    divergence, cause = shown.divergence, shown.cause
    if not shown.differs:
        return DriftTrace(runs=shown.runs, why="the runs with the recorder had no difference")
    first = f"step {divergence.step}: {describe_record(divergence.record)}" if divergence else ""
    if cause is None:
        return DriftTrace(
            runs=shown.runs, first=first, why="no line of the program differs before the result does"
        )
    return DriftTrace(
        runs=shown.runs, first=first, kind=cause.kind, subject=cause.subject,
        place=f"{cause.place}  {cause.text}".strip() if cause.place else "", reason=cause.reason,
        remedy=cause.remedy, tested=describe_test(shown),
    )  # fmt: skip
