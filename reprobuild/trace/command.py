"""The traced command: each run is a fresh container, whose logs come to a directory of this machine."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from reprobuild.context import RunContext
from reprobuild.engines.model import Engine
from reprobuild.engines.registry import find_engine
from reprobuild.errors import EngineError, InconclusiveError, UsageError
from reprobuild.lock.model import Lock
from reprobuild.output.directory import engine_name, read_image
from reprobuild.recipe.image_config import PROFILE
from reprobuild.run.options import RunOptions
from reprobuild.run.run import prepare
from reprobuild.trace.log import LOG_NAME, read_logs
from reprobuild.trace.rounds import Findings, TraceSearch
from reprobuild.trace.traced_run import TracedRun, TraceSettings
from reprobuild.verify.check import check_seed
from reprobuild.verify.workload.conditions import hide_argument_secrets
from reprobuild.verify.workload.judge import display_line
from reprobuild.verify.workload.run import (
    OUTPUTS,
    WorkloadRun,
    collecting_command,
    compare_runs,
    read_index,
)
from reprobuild.verify.workload.work import Work

VARIABLE = "REPROBUILD_TRACE"
INSIDE = "/tmp/reprobuild-trace"  # the directory of the logs in the container
_LINES = 10  # of the output of a command that fails


class TraceOptions(Struct, frozen=True, kw_only=True):
    """The options of a trace, beside those of the containers.

    Attributes:
        runs: how often the steps are compared.
        pattern: of printed lines that end a step, or empty.
        against: the directory of the logs of another run, or None.
        save: a directory for the logs of the first run, or None.
        artefacts: output files to compare: paths and globs.
        ignored: keys of values that may differ in them.
    """

    runs: int = 2
    artefacts: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    pattern: str = ""
    against: Path | None = None
    save: Path | None = None


class TraceResult(Struct, frozen=True, kw_only=True):
    """The result of a trace.

    Attributes:
        out: the output directory, as the user gave it.
        command: without secrets.
        seed: of all runs.
        engine: that ran the command.
        findings: what the runs show.
        version: of these fields.
    """

    out: str
    command: tuple[str, ...]
    seed: int
    engine: str
    findings: Findings
    version: int = 1


def trace_command(
    out: Path,
    arguments: tuple[str, ...],
    context: RunContext,
    options: RunOptions,
    trace_options: TraceOptions,
) -> TraceResult:
    """Run a command in an image until the first difference of its runs is known.

    Args:
        out: the output directory of the image.
        arguments: the command.
        context: of the runs; its `say` logs each of them.
        options: of the containers; the seed is that of the lock, else 42, if it is None.
        trace_options: the options of the trace.

    Raises:
        UsageError: the options are not valid, or the directory holds no image.
        EngineError: the engine does not support an option.
        InconclusiveError: the command fails, or is not recorded.
    """
    lock, image = read_image(out)
    seed = check_seed(lock) if options.seed is None else options.seed
    options = msgspec.structs.replace(options, seed=seed)
    against = None if trace_options.against is None else _read_saved(trace_options.against)
    if trace_options.save is not None and trace_options.save.exists():
        raise UsageError(
            f"{trace_options.save} is there already", hint="name a new directory, or remove that one"
        )
    task = prepare(lock, arguments, options, context.env).task
    engine = find_engine(options.engine, context.env, gpus=task.gpus)
    name = engine_name(lock, image, out, context.store, context.say)
    context.say(f"loading {name} into {engine.NAME}, if it is not there yet")
    engine.load(out / "image", name, (image.config, image.manifest), context.env, context.progress)
    work = Work(
        command=arguments,
        artefacts=trace_options.artefacts,
        ignored=trace_options.ignored,
        text=shlex.join(arguments),
    )
    with TracedContainers(lock, work, context, options, engine, name, trace_options.pattern).open() as runner:
        findings, first = TraceSearch(runner, context.say).find(trace_options.runs, against)
        if findings.steps <= 1 and not findings.differs and not trace_options.artefacts:
            raise InconclusiveError(
                "the command has no steps of PyTorch, so there is nothing to compare",
                hint=f"name a file that it writes: `reprobuild trace {shlex.quote(str(out))} --output-file FILE -- "
                f"{shlex.join(hide_argument_secrets(arguments))}`; or its printed steps: --steps 'epoch [0-9]+'",
            )
        if trace_options.save is not None:
            _save(first, trace_options.save)
    return TraceResult(
        out=str(out),
        command=hide_argument_secrets(arguments),
        seed=seed,
        engine=engine.NAME,
        findings=findings,
    )


class TracedContainers:
    """Runs one command in fresh containers."""

    def __init__(
        self, lock: Lock, work: Work, context: RunContext, options: RunOptions, engine: Engine, name: str,
        pattern: str,
    ) -> None:  # fmt: skip
        self._lock, self._work, self._context, self._options = lock, work, context, options
        self._engine, self._name, self._pattern = engine, name, pattern
        self._scratch, self._count = Path(), 0

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
        self._count += 1
        folder, logs = self._scratch / str(self._count), self._scratch / f"{self._count}.logs"
        folder.mkdir()
        logs.mkdir()
        outputs = self._run(settings, folder, title)
        assert outputs.index is not None
        for entry in outputs.index.files:
            name = entry.path.rpartition("/")[2]
            if entry.pattern == INSIDE and entry.stored and LOG_NAME.fullmatch(name):
                (folder / entry.stored).rename(logs / name)
        read = read_logs(logs)
        if not read:
            shown = shlex.join(hide_argument_secrets(self._work.command))
            raise InconclusiveError(
                f"`{shown}` left no record: no process of it is Python's, or the image was made by a reprobuild "
                "without `trace`",
                hint="build the image again: `reprobuild build OUT/reprobuild.lock -o OUT`",
            )
        return TracedRun(folder=logs, logs=read, outputs=outputs)

    def _run(self, settings: TraceSettings, folder: Path, title: str) -> WorkloadRun:
        arguments = collecting_command((*self._work.artefacts, INSIDE), self._work.command)
        task = prepare(self._lock, arguments, self._options, self._context.env).task
        values: dict[str, Any] = {**msgspec.to_builtins(settings), "folder": INSIDE, "pattern": self._pattern}
        profile = {PROFILE: settings.profile} if settings.profile else {}
        environment = {**task.environment, **profile, VARIABLE: json.dumps(values), "REPROBUILD_RECORD": "0"}
        task = msgspec.structs.replace(task, environment=environment, outputs=OUTPUTS, kept=folder)
        done = self._engine.run(self._name, task, self._context.env)
        index = read_index(folder)
        shown = shlex.join(hide_argument_secrets(self._work.command))
        if index is None or index.failed:
            why = display_line(index.failed) if index else "the container left no list of its files"
            raise EngineError(
                f"the logs of `{shown}` cannot be had: {why}",
                hint="was its disk full? Trace fewer steps, or let another engine run it (--engine)",
            )
        if index.code:
            tail = "\n".join(map(display_line, done.stderr.decode(errors="replace").splitlines()[-_LINES:]))
            raise InconclusiveError(
                f"`{shown}` fails with exit code {index.code} ({title}):\n{tail}",
                hint=f"run it alone: `reprobuild run OUT -- {shown}`",
            )
        return WorkloadRun(code=index.code, folder=folder, index=index, tail="")

    def compare_files(self, first: TracedRun, second: TracedRun) -> tuple[str, ...]:
        """Return a line for each output file that differs."""
        if not self._work.artefacts or first.outputs is None or second.outputs is None:
            return ()
        comparisons = compare_runs(
            self._work, (first.outputs, second.outputs), self._name, self._engine, self._context.env
        )
        return tuple(
            f"{comparison.name}: {comparison.detail}"
            for comparison in comparisons
            if comparison.verdict == "drift"
        )


def _read_saved(folder: Path) -> TracedRun:
    if not folder.is_dir():
        raise UsageError(
            f"--against {folder}: there is no such directory", hint="`--save DIR` of another trace writes one"
        )
    logs = read_logs(folder)
    if not logs:
        raise UsageError(
            f"--against {folder}: it holds no logs of a trace",
            hint="`--save DIR` of another trace writes them",
        )
    return TracedRun(folder=folder, logs=logs)


def _save(run: TracedRun, target: Path) -> None:
    """Copy the logs of a run into a new directory."""
    target.mkdir(parents=True)
    for name in run.logs:
        for suffix in (".records", ".steps"):
            shutil.copyfile(run.folder / f"{name}{suffix}", target / f"{name}{suffix}")
