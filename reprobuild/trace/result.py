"""The result of a trace, as text."""

from __future__ import annotations

from collections.abc import Iterator

from reprobuild.infra.columns import align
from reprobuild.trace.cause import describe_record
from reprobuild.trace.command import TraceResult
from reprobuild.trace.rounds import Findings


def render_trace(result: TraceResult) -> str:
    """Return the lines for a terminal."""
    return "\n".join(_list_lines(result))


def _list_lines(result: TraceResult) -> Iterator[str]:
    findings = result.findings
    processes = f" in {findings.processes} processes" if findings.processes > 1 else ""
    runs, steps = _count(findings.runs, "run"), _count(findings.steps, "step")
    amount = f"{runs} with the seed {result.seed}, {steps}{processes}"
    if not findings.differs:
        yield f"no difference: {amount}"
        return
    yield from align(list(_list_rows(findings)))
    yield amount


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _list_rows(findings: Findings) -> Iterator[tuple[str, str]]:
    divergence, cause = findings.divergence, findings.cause
    for line in findings.files:
        yield "differs", line
    if divergence is not None:
        yield "first record", f"step {divergence.step}: {describe_record(divergence.record)}"
    if cause is None:
        yield "cause", "not found: no line of the program differs before the result does"
        return
    yield "cause", f"{cause.subject} ({cause.kind})"
    if cause.place:
        yield "place", f"{cause.place}  {cause.text}".rstrip()
    yield "reason", cause.reason
    if findings.hidden:
        yield "note", "the difference is gone when operations are recorded; it still shows in the steps"
    if cause.remedy:
        yield "remedy", cause.remedy
    if tested := describe_test(findings):
        yield "tested", tested


def describe_test(findings: Findings) -> str:
    """Return the result of two runs with the remedy; empty without such runs."""
    if findings.cured is None or findings.cause is None:
        return ""
    cure = findings.cause.cure
    words = "filled memory" if cure == "fill" else f"the profile {cure}"
    return f"with {words}, two runs {'are the same' if findings.cured else 'still differ'}"
