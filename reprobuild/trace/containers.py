"""The containers of a traced command, whose logs come to a directory of this machine."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import msgspec

from reprobuild.context import RunContext
from reprobuild.engines.model import Engine, Task
from reprobuild.errors import EngineError, InconclusiveError
from reprobuild.recipe.image_config import PROFILE
from reprobuild.trace.log import LOG_NAME, ProcessLog, read_logs
from reprobuild.trace.traced_run import ComparedFiles, ResumedRun, TracedRun, TraceSettings
from reprobuild.verify.verdict import WorkComparison
from reprobuild.verify.workload.compare import compare_runs, refuse_failures
from reprobuild.verify.workload.conditions import hide_argument_secrets
from reprobuild.verify.workload.container import OUTPUTS, WorkloadRun, collecting_command, read_index
from reprobuild.verify.workload.judge import display_line
from reprobuild.verify.workload.work import Work

VARIABLE = "REPROBUILD_TRACE"
INSIDE = "/tmp/reprobuild-trace"  # the directory of the logs in the container
STOPPED = "/tmp/reprobuild-stopped"  # that of the run before a resumed one
_LINES = 10  # of the output of a command that fails


class TracedContainers:
    """Runs one command in fresh containers."""

    def __init__(
        self, work: Work, make_task: Callable[[tuple[str, ...]], Task], context: RunContext, engine: Engine,
        name: str, pattern: str = "", wrap: Callable[[Task], AbstractContextManager[Task]] = nullcontext,
    ) -> None:  # fmt: skip
        """Take the command and its conditions.

        Args:
            work: the command and its output files.
            make_task: returns the task of a command line, with the conditions of the user.
            context: of the runs.
            engine: loads and runs the image.
            name: of the image in the engine.
            pattern: of printed lines that end a step, or empty.
            wrap: gives each run's task what it needs for its time.
        """
        self._work, self._make_task, self._context = work, make_task, context
        self._engine, self._name, self._pattern = engine, name, pattern
        self._scratch, self._count, self._wrap = Path(), 0, wrap

    @contextmanager
    def open(self) -> Iterator[TracedContainers]:
        """Make a directory for the logs, and remove it at the end."""
        with self._context.store.scratch() as scratch:
            self._scratch = scratch / "runs"
            self._scratch.mkdir()
            yield self

    def run(self, settings: TraceSettings, title: str) -> TracedRun:
        """Run the command once, and return its logs.

        Raises:
            InconclusiveError: the command fails, or is not recorded.
            EngineError: the container left no list of its files.
        """
        environment = {VARIABLE: self._format(settings, INSIDE)}
        outputs, tail = self._start(self._work.command, (INSIDE,), environment, settings.profile)
        if outputs.code and not settings.stop:  # a command may miss the results of a process that was stopped
            shown = hide_argument_secrets(self._work.command)
            raise InconclusiveError(
                f"`{shlex.join(shown)}` fails with exit code {outputs.code} ({title}):\n{tail}",
                hint=f"run it alone: `reprobuild run OUT -- {shlex.join(shown)}`",
            )
        folder, logs = self._take_logs(outputs, INSIDE)
        if not logs:
            raise self._unrecorded()
        return TracedRun(folder=folder, logs=logs, outputs=outputs)

    def run_resumed(self, stop: int, command: tuple[str, ...]) -> ResumedRun:
        """Run the command up to a step, and then another command beside its files, in one container.

        Raises:
            InconclusiveError: the first command is not recorded.
            EngineError: the container left no list of its files.
        """
        first = self._format(TraceSettings(components=True, stop=stop, stride=1), STOPPED)
        second = self._format(TraceSettings(components=True, stride=1), INSIDE)
        line = (
            f"{VARIABLE}={shlex.quote(first)} {shlex.join(self._work.command)}; "
            f"export {VARIABLE}={shlex.quote(second)}; exec {shlex.join(command)}"
        )
        outputs, tail = self._start(("/bin/sh", "-c", line), (STOPPED, INSIDE), {})
        _, stopped = self._take_logs(outputs, STOPPED)
        if not stopped:
            raise self._unrecorded()
        folder, logs = self._take_logs(outputs, INSIDE)
        return ResumedRun(
            stopped=stopped,
            resumed=TracedRun(folder=folder, logs=logs, outputs=outputs),
            code=outputs.code,
            tail=tail,
        )

    def _format(self, settings: TraceSettings, inside: str) -> str:
        values: dict[str, Any] = {
            **msgspec.to_builtins(settings),
            "folder": inside,
            "pattern": self._pattern,
        }
        return json.dumps(values)

    def _start(
        self,
        command: tuple[str, ...],
        folders: tuple[str, ...],
        environment: Mapping[str, str],
        profile: str = "",
    ) -> tuple[WorkloadRun, str]:
        """Run a command line; return the run with its output files and logs, and the end of its errors."""
        self._count += 1
        folder = self._scratch / str(self._count)
        folder.mkdir()
        task = self._make_task(collecting_command((*self._work.artefacts, *folders), command))
        task = msgspec.structs.replace(
            task, outputs=OUTPUTS, kept=folder,
            environment={
                **task.environment, **({PROFILE: profile} if profile else {}), **environment, "REPROBUILD_RECORD": "0",
            },
        )  # fmt: skip
        with self._wrap(task) as wrapped:
            done = self._engine.run(self._name, wrapped, self._context.env)
        index = read_index(folder)
        if index is None or index.failed:
            why = display_line(index.failed) if index else "the container left no list of its files"
            raise EngineError(
                f"the logs of `{self._shown}` cannot be had: {why}",
                hint="was its disk full? Trace fewer steps, or let another engine run it (--engine)",
            )
        tail = "\n".join(map(display_line, done.stderr.decode(errors="replace").splitlines()[-_LINES:]))
        return WorkloadRun(code=index.code, folder=folder, index=index, tail=""), tail

    def _take_logs(self, outputs: WorkloadRun, inside: str) -> tuple[Path, dict[str, ProcessLog]]:
        """Move the logs of one directory of the container into a directory of their own, read and verify them."""
        assert outputs.index is not None
        folder = outputs.folder
        logs = folder.with_name(f"{folder.name}.{'logs' if inside == INSIDE else 'stopped'}")
        logs.mkdir()
        for entry in outputs.index.files:
            name = entry.path.rpartition("/")[2]
            if entry.pattern == inside and entry.kind == "file" and LOG_NAME.fullmatch(name):
                try:
                    (folder / entry.stored).rename(logs / name)
                except FileNotFoundError:  # two names of one file
                    raise InconclusiveError(
                        f"the log {name} is not valid: it is a file that has another name, too",
                        hint="does the program write into the directory of the logs? Trace one that does not",
                    ) from None
        processes = read_logs(logs)
        for log in processes.values():
            log.verify_whole_steps()
        return logs, processes

    @property
    def _shown(self) -> str:
        return shlex.join(hide_argument_secrets(self._work.command))

    def _unrecorded(self) -> InconclusiveError:
        return InconclusiveError(
            f"`{self._shown}` left no record: no process of it is Python's, or the image was made by a reprobuild "
            "without `trace`",
            hint="build the image again: `reprobuild build OUT/reprobuild.lock -o OUT`",
        )

    def compare_outputs(self, first: WorkloadRun, second: WorkloadRun) -> list[WorkComparison]:
        """Return a comparison for each named output."""
        if not self._work.artefacts:
            return []
        refuse_failures(self._work, (first, second))
        return compare_runs(self._work, (first, second), self._name, self._engine, self._context.env)

    def compare_files(self, first: TracedRun, second: TracedRun) -> ComparedFiles:
        """Compare the named output files."""
        if first.outputs is None or second.outputs is None:
            return ComparedFiles()
        comparisons = self.compare_outputs(first.outputs, second.outputs)
        differing, unanswered = (
            tuple(
                f"{comparison.name}: {comparison.detail}"
                for comparison in comparisons
                if comparison.verdict == verdict
            )
            for verdict in ("drift", "inconclusive")
        )
        return ComparedFiles(differing, unanswered)
