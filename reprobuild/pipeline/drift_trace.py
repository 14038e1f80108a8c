"""The part of a check that looks for the cause of a workload's drift."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from reprobuild.context import RunContext
from reprobuild.engines.model import Engine, Task
from reprobuild.errors import EngineError, InconclusiveError
from reprobuild.run.options import AUTO
from reprobuild.trace.cause import describe_record
from reprobuild.trace.containers import TracedContainers
from reprobuild.trace.display import hide_in_findings
from reprobuild.trace.result import describe_test
from reprobuild.trace.rounds import Findings, TraceSearch
from reprobuild.verify.verdict import DriftTrace
from reprobuild.verify.workload.judge import display_line
from reprobuild.verify.workload.work import Work, make_work_task

MODES = (AUTO, "on", "off")
LONGEST = 60  # seconds of one run, in the mode `auto`: a trace takes some ten runs


def make_trace(
    work: Work | None,
    seed: int,
    context: RunContext,
    engine: Engine,
    name: str,
    *,
    mode: str,
    wrap: Callable[[Task], AbstractContextManager[Task]],
) -> Callable[[str, float], DriftTrace | None] | None:
    """Return a function that explains a drift, from the workload's GPUs and the seconds of one run.

    Args:
        work: the workload, or None.
        seed: of the check.
        context: of the runs.
        engine: that has the image.
        name: of the image in the engine.
        mode: one of `MODES`; in the mode `auto` a run of more than `LONGEST` seconds is not traced.
        wrap: gives each run's task what it needs for its time.
    """
    if work is None or mode == "off":
        return None
    subject = work

    def trace(gpus: str, seconds: float) -> DriftTrace | None:
        if mode == AUTO and seconds > LONGEST:
            context.say(
                f"your work drifts; one run took {seconds:.0f} s, so its cause is looked for with --trace on"
            )
            return None

        def make_task(words: tuple[str, ...]) -> Task:
            return make_work_task(subject, seed, words, gpus)

        context.say("your work drifts: runs with a recorder look for the cause")
        try:
            with TracedContainers(subject, make_task, context, engine, name, wrap=wrap).open() as containers:
                return summarise(TraceSearch(containers, context.say).find(subject.runs)[0])
        except (InconclusiveError, EngineError) as err:  # the answer on the drift stays
            return DriftTrace(why=display_line(str(err)))

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
