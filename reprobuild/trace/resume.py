"""The check of a workload that is stopped and resumed."""

from __future__ import annotations

from reprobuild.errors import InconclusiveError
from reprobuild.trace.components import REMEDIES, ResumeFindings, compare_resumed
from reprobuild.trace.containers import TracedContainers
from reprobuild.trace.traced_run import ResumedRun, TracedRun, TraceSettings
from reprobuild.verify.verdict import V, WorkComparison
from reprobuild.verify.workload.judge import display_line


def check_resume(containers: TracedContainers, stop: int, command: tuple[str, ...]) -> WorkComparison:
    """Run a workload whole, run it again up to a step and resume it, and compare.

    Args:
        containers: run the workload.
        stop: the number of steps of an optimizer after which the second run is stopped.
        command: resumes it.

    Returns:
        The comparison; its detail names the first component of the training that differs.

    Raises:
        InconclusiveError: the workload fails, or is not recorded.
        EngineError: the engine failed.
    """
    whole = containers.run(TraceSettings(components=True, stride=1), "without a stop")
    resumed = containers.run_resumed(stop, command)
    findings = compare_resumed(whole.logs, resumed.stopped, resumed.resumed.logs)
    if not findings.steps:
        raise InconclusiveError(
            "--resume: the workload has no steps of an optimizer of PyTorch",
            hint="compare its output files alone: leave --resume out",
        )
    name = f"resume at step {findings.began} of {findings.steps}, after a stop at step {stop}"
    verdict, lines = _judge(findings, resumed, stop)
    if verdict != "inconclusive" and not resumed.code:
        verdict, lines = _judge_files(containers, whole, resumed, verdict, lines)
    detail, *details = map(display_line, lines)
    return WorkComparison(name=name, verdict=verdict, detail=detail, details=tuple(details))


def _judge(findings: ResumeFindings, resumed: ResumedRun, stop: int) -> tuple[V, list[str]]:
    difference = findings.difference
    if findings.steps <= stop or findings.stopped < stop:
        count = min(findings.steps, findings.stopped)
        return "inconclusive", [
            f"the workload made {count} steps, and could not be stopped at step {stop}: name an earlier step"
        ]
    if findings.early:
        return "inconclusive", [
            "two runs with one seed differ before the stop: does it drift, or read files that a run left in a volume?"
        ]
    if resumed.code:
        return "drift", [f"the resumed run fails with exit code {resumed.code}", *resumed.tail.splitlines()]
    if not findings.resumed:
        return "drift", [
            f"step counter: the resumed run made no step, and {findings.steps - findings.stopped} were left"
        ]
    if not findings.began:
        return "inconclusive", [
            "the resumed run began anew, and read no checkpoint: was one written before the stop? "
            "--resume-command names the command that goes on"
        ]
    if difference is None:
        return "identical", [
            f"{findings.resumed} steps after the stop have the same model, optimizer, generators and input"
        ]
    first = difference.components[0]
    if first == "step counter":
        expected = findings.steps - findings.began
        return "drift", [
            f"{first}: the resumed run made {findings.resumed} steps, and {expected} were left", REMEDIES[first],
        ]  # fmt: skip
    subject = f" ({difference.subject})" if difference.subject else ""
    lines = [f"{first}{subject} differs first, at step {difference.step}", REMEDIES[first]]
    if rest := ", ".join(difference.components[1:]):
        lines.append(f"also differ at this step: {rest}")
    if same := ", ".join(difference.same):
        lines.append(f"the same at this step: {same}")
    return "drift", lines


def _judge_files(
    containers: TracedContainers, whole: TracedRun, resumed: ResumedRun, verdict: V, lines: list[str]
) -> tuple[V, list[str]]:
    """Add the output files that differ."""
    assert whole.outputs is not None
    assert resumed.resumed.outputs is not None
    compared = containers.compare_outputs(whole.outputs, resumed.resumed.outputs)
    files = [f"{file.name}: {file.detail}" for file in compared if file.verdict == "drift"]
    if files and verdict == "identical":
        return "drift", [
            f"other state: the steps are the same, and {files[0]}", REMEDIES["other state"], *files[1:]
        ]  # fmt: skip
    return verdict, lines + files
