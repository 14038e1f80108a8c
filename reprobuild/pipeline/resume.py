"""The part of a check that stops and resumes the workload."""

from __future__ import annotations

from collections.abc import Callable

from reprobuild.errors import UsageError
from reprobuild.pipeline.recorded_work import RecordedWork
from reprobuild.trace.resume import check_resume
from reprobuild.verify.check import GIVE_WORK
from reprobuild.verify.verdict import WorkComparison
from reprobuild.verify.workload.work import make_resume_command


def make_resume(
    recorded: RecordedWork | None, *, stop: int, command: str
) -> Callable[[str], WorkComparison] | None:
    """Return a function that checks a resumed workload with the GPUs that it may use.

    Args:
        recorded: the workload, or None.
        stop: the number of steps before the stop; 0 for no such check, which returns None.
        command: a line of shell that resumes the workload; empty for the workload itself.

    Raises:
        UsageError: there is no workload to resume, or a command without a step.
    """
    if not stop:
        if command:
            raise UsageError(
                "--resume-command is given, and --resume is missing",
                hint="add the number of steps before the stop: --resume 10",
            )
        return None
    if recorded is None:
        raise UsageError("--resume is given, and there is no workload to resume", hint=GIVE_WORK)

    def resume(gpus: str) -> WorkComparison:
        recorded.context.say(f"your work once more, stopped after {stop} steps and resumed")
        with recorded.open(gpus) as containers:
            return check_resume(containers, stop, make_resume_command(recorded.work, command))

    return resume
