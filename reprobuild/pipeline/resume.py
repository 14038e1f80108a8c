"""The part of a check that stops and resumes the workload."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from reprobuild.context import RunContext
from reprobuild.engines.model import Engine, Task
from reprobuild.errors import UsageError
from reprobuild.trace.containers import TracedContainers
from reprobuild.trace.resume import check_resume
from reprobuild.verify.check import GIVE_WORK
from reprobuild.verify.verdict import WorkComparison
from reprobuild.verify.workload.work import Work, make_resume_command, make_work_task


def make_resume(
    work: Work | None,
    seed: int,
    context: RunContext,
    engine: Engine,
    name: str,
    *,
    stop: int,
    command: str,
    wrap: Callable[[Task], AbstractContextManager[Task]],
) -> Callable[[str], WorkComparison] | None:
    """Return a function that checks a resumed workload with the GPUs that it may use.

    Args:
        work: the workload, or None.
        seed: of the check.
        context: of the runs.
        engine: that has the image.
        name: of the image in the engine.
        stop: the number of steps before the stop; 0 for no such check, which returns None.
        command: a line of shell that resumes the workload; empty for the workload itself.
        wrap: gives each run's task what it needs for its time.

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
    if work is None:
        raise UsageError("--resume is given, and there is no workload to resume", hint=GIVE_WORK)
    subject = work

    def resume(gpus: str) -> WorkComparison:
        def make_task(words: tuple[str, ...]) -> Task:
            return make_work_task(subject, seed, words, gpus)

        context.say(f"your work once more, stopped after {stop} steps and resumed")
        with TracedContainers(subject, make_task, context, engine, name, wrap=wrap).open() as containers:
            return check_resume(containers, stop, make_resume_command(subject, command))

    return resume
