"""The check of a workload that is stopped and resumed."""

from __future__ import annotations

from reprobuild.errors import InconclusiveError
from reprobuild.trace.components import (
    PROCESSES,
    REMEDIES,
    ResumeDifference,
    ResumeFindings,
    compare_resumed,
)
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
        The comparison; its detail names the first component of the training that differs. It is inconclusive if the
        workload fails, or is not recorded.

    Raises:
        EngineError: the engine failed.
    """
    try:
        name, verdict, lines = _check(containers, stop, command)
    except (InconclusiveError, OSError) as err:  # the answer on the other files stays
        name, verdict, lines = (
            f"resume after a stop at step {stop}",
            "inconclusive",
            [*str(err).splitlines()],
        )
    detail, *details = map(display_line, lines)
    return WorkComparison(
        name=name, verdict=verdict, condition="resumed", detail=detail, details=tuple(details)
    )


def _check(containers: TracedContainers, stop: int, command: tuple[str, ...]) -> tuple[str, V, list[str]]:
    whole = containers.run(TraceSettings(components=True, stride=1), "without a stop")
    resumed = containers.run_resumed(stop, command)
    findings = compare_resumed(whole.logs, resumed.stopped, resumed.resumed.logs, stop)
    name = f"resume at step {findings.began} of {findings.steps}, after a stop at step {stop}"
    verdict, lines = _judge(findings, resumed, stop)
    if verdict != "inconclusive" and not resumed.code:
        verdict, lines = _judge_files(containers, whole, resumed, findings.difference, verdict, lines)
    return name, verdict, lines


def _judge(findings: ResumeFindings, resumed: ResumedRun, stop: int) -> tuple[V, list[str]]:
    difference = findings.difference
    if not findings.steps:
        return "inconclusive", [
            "the workload made no step of an optimizer of PyTorch: has it another framework, or did it read a finished "
            "checkpoint in a volume? Without --resume, its output files alone are compared"
        ]
    if findings.steps <= stop or findings.stopped < stop:
        count = min(findings.steps, findings.stopped)
        return "inconclusive", [
            f"the workload made {count} steps, and could not be stopped at step {stop}: name an earlier step"
        ]
    if findings.early:
        return "inconclusive", [
            "two runs with one seed differ before the stop: does it drift, or read files that a run left in a volume?"
        ]
    if findings.again:
        return "inconclusive", [
            "the workload started itself again after the stop: leave its loop or its option of restarts out"
        ]
    if resumed.code:
        return "drift", [f"the resumed run fails with exit code {resumed.code}", *resumed.tail.splitlines()]
    if not findings.resumed:
        return "drift", [
            f"step counter: the resumed run made no step, and {findings.steps - findings.stopped} were left"
        ]
    if not findings.began:
        return "inconclusive", [
            "the resumed run began anew, and read no checkpoint: was one written before the stop, or within the 30 s "
            "after SIGTERM? --resume-command names the command that goes on"
        ]
    if difference is None:
        return "identical", [
            f"{findings.resumed} steps after the stop have the same model, optimizer, generators and input"
        ]
    if not difference.counts:
        return "identical", [
            f"{findings.resumed} steps after the stop have the same model, optimizer and input; the state of the "
            f"generator {difference.subject} differs, and nothing else"
        ]
    return "drift", _describe(findings, difference)


def _describe(findings: ResumeFindings, difference: ResumeDifference) -> list[str]:
    first = difference.components[0]
    if first == "step counter":
        steps, left = difference.steps, difference.left
        if (steps, left) == (findings.resumed, findings.steps - findings.began):
            return [f"{first}: the resumed run made {steps} steps, and {left} were left", REMEDIES[first]]
        number = f"{steps or 'no'} step{'s' if steps > 1 else ''}"
        return [
            f"{first}: the process {difference.process} made {number} in the resumed run, and {left} were left",
            REMEDIES[first] if steps and left else PROCESSES,
        ]  # fmt: skip
    subject = f" ({difference.subject})" if difference.subject else ""
    lines = [f"{first}{subject} differs first, at step {difference.step}", REMEDIES[first]]
    if first == "generator" and "data order" in difference.components:
        lines.append(f"or the data alone: {REMEDIES['data order']}")
    place = "at this step" if difference.later is None else f"from step {difference.later} on"
    if rest := ", ".join(difference.components[1:]):
        lines.append(f"also differ {place}: {rest}")
    if same := ", ".join(difference.same):
        lines.append(f"the same {'at this step' if difference.later is None else 'until then'}: {same}")
    return lines


def _judge_files(
    containers: TracedContainers, whole: TracedRun, resumed: ResumedRun, difference: ResumeDifference | None,
    verdict: V, lines: list[str],
) -> tuple[V, list[str]]:  # fmt: skip
    """Add the output files that differ; a file without an answer makes the result unknown."""
    assert whole.outputs is not None
    assert resumed.resumed.outputs is not None
    compared = containers.compare_outputs(whole.outputs, resumed.resumed.outputs)
    files = [f"{file.name}: {file.detail}" for file in compared if file.verdict == "drift"]
    unknown = [f"{file.name}: {file.detail}" for file in compared if file.verdict == "inconclusive"]
    if verdict == "identical" and files and difference is not None:
        return "drift", [
            f"generator ({difference.subject}) differs first, at step {difference.step}", REMEDIES["generator"], *files
        ]  # fmt: skip
    if verdict == "identical" and files:
        return "drift", [
            f"other state: the steps are the same, and {files[0]}", REMEDIES["other state"], *files[1:]
        ]  # fmt: skip
    if verdict == "identical" and unknown:
        return "inconclusive", [*unknown, *lines]
    return verdict, lines + files
