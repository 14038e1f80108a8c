"""The command of a trace: its options, its result, and the logs that it reads and writes."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from reprobuild.context import RunContext
from reprobuild.engines.model import Engine, Task
from reprobuild.engines.registry import find_engine
from reprobuild.errors import InconclusiveError, UsageError
from reprobuild.infra.directory_fd import open_new_directory
from reprobuild.infra.shell_words import quote_path
from reprobuild.lock.model import Lock
from reprobuild.output.directory import engine_name, read_image
from reprobuild.run.options import RunOptions
from reprobuild.run.run import prepare
from reprobuild.trace.containers import TracedContainers
from reprobuild.trace.display import hide_in_findings
from reprobuild.trace.log import read_logs
from reprobuild.trace.rounds import Findings, TraceSearch
from reprobuild.trace.traced_run import TracedRun
from reprobuild.verify.check import check_seed
from reprobuild.verify.workload.conditions import hide_argument_secrets
from reprobuild.verify.workload.work import Work


class TraceOptions(Struct, frozen=True, kw_only=True):
    """The options of a trace, beside those of the containers.

    Attributes:
        runs: how often the steps are compared.
        pattern: of printed lines that end a step, or empty.
        against: the directory of the logs of another run, or None.
        save: a directory for the logs of the first run of the command, or None.
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


class OpenedContainers(Struct, frozen=True, kw_only=True):
    """The containers of a command.

    Attributes:
        containers: run the command.
        engine: that runs them.
        seed: of all runs.
        lock: of the image.
        task: of the command, without a recorder.
    """

    containers: TracedContainers
    engine: Engine
    seed: int
    lock: Lock
    task: Task


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
    against = None if trace_options.against is None else _read_saved(trace_options.against)
    if trace_options.save is not None and os.path.lexists(trace_options.save):
        raise UsageError(
            f"{trace_options.save} is there already", hint="name a new directory, or remove that one"
        )
    work = Work(
        command=arguments,
        artefacts=trace_options.artefacts,
        ignored=trace_options.ignored,
        text=shlex.join(arguments),
    )
    with open_containers(out, work, context, options, trace_options.pattern) as opened:
        findings, run = TraceSearch(opened.containers, context.say).find(trace_options.runs, against)
        if findings.steps <= 1 and not findings.differs and not trace_options.artefacts:
            raise no_steps_error(out, arguments)
        if trace_options.save is not None:
            save_logs(run, trace_options.save)
    return TraceResult(
        out=str(out),
        command=hide_argument_secrets(arguments),
        seed=opened.seed,
        engine=opened.engine.NAME,
        findings=hide_in_findings(findings),
    )


@contextmanager
def open_containers(
    out: Path, work: Work, context: RunContext, options: RunOptions, pattern: str,
    site: Mapping[str, str] | None = None,
) -> Iterator[OpenedContainers]:  # fmt: skip
    """Load an image, and yield the containers of a command in it.

    Args:
        out: the output directory of the image.
        work: the command, and its output files.
        context: of the runs.
        options: of the containers; the seed is that of the lock, else 42, if it is None.
        pattern: of printed lines that end a step, or empty.
        site: the environment of which the containers get a part; if None, that of the context.

    Raises:
        UsageError: the options are not valid, or the directory holds no image.
        EngineError: the engine does not support an option.
    """
    site = context.env if site is None else site
    lock, image = read_image(out)
    seed = check_seed(lock) if options.seed is None else options.seed
    options = msgspec.structs.replace(options, seed=seed)
    task = prepare(lock, work.command, options, site).task
    engine = find_engine(options.engine, context.env, gpus=task.gpus)
    name = engine_name(lock, image, out, context.store, context.say)
    context.say(f"loading {name} into {engine.NAME}, if it is not there yet")
    engine.load(out / "image", name, image.digests, context.env, context.progress)

    def make_task(words: tuple[str, ...]) -> Task:
        return prepare(lock, words, options, site).task

    with TracedContainers(work, make_task, context, engine, name, pattern).open() as containers:
        yield OpenedContainers(containers=containers, engine=engine, seed=seed, lock=lock, task=task)


def no_steps_error(out: Path, arguments: tuple[str, ...]) -> InconclusiveError:
    """Return the error of a command that has no steps."""
    return InconclusiveError(
        "the command has no steps of PyTorch, so there is nothing to compare",
        hint=f"name a file that it writes: `reprobuild trace {quote_path(out)} --output-file FILE -- "
        f"{shlex.join(hide_argument_secrets(arguments))}`; or its printed steps: --steps 'epoch [0-9]+'",
    )


def _read_saved(folder: Path) -> TracedRun:
    if not folder.is_dir():
        raise UsageError(
            f"--against {folder}: there is no such directory", hint="`--save DIR` of another trace writes one"
        )
    logs = read_logs(folder, foreign=True)
    if not logs:
        raise UsageError(
            f"--against {folder}: it holds no logs of a trace",
            hint="`--save DIR` of another trace writes them",
        )
    for log in logs.values():
        log.verify()
    return TracedRun(folder=folder, logs=logs)


def save_logs(run: TracedRun, target: Path) -> None:
    """Copy the logs of a run into a new directory.

    Raises:
        OSError: the directory is there, a log is a link, or the disk is full.
    """
    with open_new_directory(target) as number:
        for log in run.logs.values():
            log.copy(number)
