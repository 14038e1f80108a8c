"""Each step of the command line as a function. docs/api.md has examples."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from reprobuild.api.context import open_context, process_environment
from reprobuild.api.results import BuildResult, ComparisonResult, RunResult
from reprobuild.capture import launch
from reprobuild.cluster.report import read_nodes
from reprobuild.compare.environments import open as environments
from reprobuild.config.argument_forms import check_command, check_decisions, refuse_text
from reprobuild.config.overrides import Decisions
from reprobuild.context import RunContext
from reprobuild.lock.file import read_lock, write_new_lock
from reprobuild.lock.model import Lock
from reprobuild.output import directory
from reprobuild.pipeline import from_snapshot as pipeline
from reprobuild.pipeline import verify as checks
from reprobuild.pipeline.build import BuildOptions
from reprobuild.pipeline.verify_options import VerifyOptions, check_parts
from reprobuild.resolve.environment.mentions import describe_mentions
from reprobuild.resolve.resolver import resolve_snapshot
from reprobuild.run import run as runs
from reprobuild.run.options import RunOptions
from reprobuild.snapshot import read
from reprobuild.snapshot.import_facts import ImportFacts
from reprobuild.snapshot.importers.import_snapshot import import_into, open_snapshot
from reprobuild.snapshot.model import Snapshot
from reprobuild.store.roots import gc_root, record_lock, remember_lock

AnyPath = Path | str
NO_DECISIONS = Decisions()
BUILD_OPTIONS, VERIFY_OPTIONS, RUN_OPTIONS = BuildOptions(), VerifyOptions(), RunOptions()


def capture(
    out: AnyPath, *, python: str = sys.executable, accept: Sequence[str] = (), include: Sequence[str] = ()
) -> Snapshot:
    """Capture this process's environment into a directory, and return the snapshot.

    Args:
        out: the directory.
        python: the interpreter whose distributions are captured.
        accept: files of repositories that look like secrets and are to be captured.
        include: files outside of all repositories, or that git ignores, which are to be captured.

    Raises:
        UsageError: `accept` or `include` is one text.
        SnapshotError: the capture did not end well; the message has its last lines.
    """
    refuse_text("capture: accept", accept)
    refuse_text("capture: include", include)
    launch.capture_into(Path(out), python, env=process_environment(), accept=accept, include=include)
    return read_snapshot(out)


def read_snapshot(folder: AnyPath) -> Snapshot:
    """Return the snapshot in a directory, or of a path that can be imported.

    Raises:
        SnapshotError: it is missing or damaged, or of no known format.
    """
    with open_snapshot(Path(folder)) as directory:
        return read.read_snapshot(directory)


def import_snapshot(path: AnyPath, out: AnyPath) -> ImportFacts:
    """Write a run of a tracker, a lock file or an archive as a snapshot directory.

    Args:
        path: a directory, a file, or an archive; docs/importing.md lists the formats.
        out: the new directory.

    Returns:
        The origin of each value, and the fields that are not used.

    Raises:
        UsageError: `out` exists. SnapshotError: the format is unknown, or a file is damaged.
    """
    return import_into(Path(path), Path(out))


def lock(
    folder: AnyPath,
    target: AnyPath,
    decisions: Decisions = NO_DECISIONS,
    *,
    context: RunContext | None = None,
) -> Lock:
    """Pin every line of a snapshot by hash, and write the lock to a file.

    Args:
        folder: the directory of the snapshot, or a path that can be imported.
        target: the file to write.
        decisions: answers that evidence does not give.
        context: the store and the network; by default the user's.

    Raises:
        UsageError: a decision has another form.
        LockError: a line cannot be pinned.
        FetchError: a file or an index is unavailable.
    """
    decisions, context = check_decisions(decisions), context or open_context()
    with open_snapshot(Path(folder), context.say) as directory:
        new_lock = resolve_snapshot(
            read.read_snapshot(directory), decisions, context.resolve_context(directory)
        )
    write_new_lock(new_lock, Path(target))
    remember_lock(new_lock, context.store)
    record_lock(new_lock, Path(target), context.store, "lock")
    return new_lock


def build(
    lock_path: AnyPath,
    out: AnyPath,
    *,
    options: BuildOptions = BUILD_OPTIONS,
    context: RunContext | None = None,
) -> BuildResult:
    """Build the image of a lock into an output directory.

    Raises:
        FetchError: a file is unavailable.
        BuildError: the build failed.
    """
    context, path = context or open_context(), Path(lock_path)
    input_lock = read_lock(path)
    with gc_root(input_lock, path, context.store, "build"):
        sealed, image = pipeline.build_from_lock(input_lock, Path(out), context, options)
    return BuildResult(lock=sealed, image=image, verdict=None, out=Path(out))


def from_snapshot(
    folder: AnyPath,
    out: AnyPath,
    decisions: Decisions = NO_DECISIONS,
    *,
    lock_path: AnyPath | None = None,
    options: BuildOptions = BUILD_OPTIONS,
    check: VerifyOptions | None = VERIFY_OPTIONS,
    context: RunContext | None = None,
) -> BuildResult:
    """Build a verified image from a snapshot.

    Args:
        folder: the directory of the snapshot, or a path that can be imported.
        out: the output directory.
        decisions: answers that evidence does not give.
        lock_path: a lock to build from, instead of a new one.
        options: how the image is made.
        check: the parts of the check; None for no check.
        context: the store and the network; by default the user's.

    Raises:
        UsageError: a decision has another form, or a part of the check is unknown.
        LockError: a line cannot be pinned.
        FetchError: a file is unavailable.
        BuildError: the build failed.
        EngineError: no engine can run the check.
    """
    decisions = check_decisions(decisions)
    if check is not None:
        _check_parts(check)
    context = context or open_context()
    sealed, image, verdict = pipeline.build_from_snapshot(
        Path(folder), Path(out), decisions, context, options, checks=check, nodes=read_nodes,
        lock_path=None if lock_path is None else Path(lock_path),
    )  # fmt: skip
    warnings = tuple(describe_mentions(sealed.rulings, sealed.sources, context.store))
    return BuildResult(lock=sealed, image=image, verdict=verdict, out=Path(out), warnings=warnings)


def verify(
    out: AnyPath, *, check: VerifyOptions = VERIFY_OPTIONS, context: RunContext | None = None
) -> BuildResult:
    """Check the image of an output directory on this machine, and write verdict and report.

    Raises:
        UsageError: the directory holds no image, or a part of the check is unknown.
        EngineError: no engine answers.
    """
    _check_parts(check)
    sealed, image = directory.read_image(Path(out))
    verdict = checks.verify(sealed, image, Path(out), context or open_context(), check, read_nodes)
    return BuildResult(lock=sealed, image=image, verdict=verdict, out=Path(out))


def run(
    out: AnyPath,
    command: Sequence[str],
    *,
    options: RunOptions = RUN_OPTIONS,
    context: RunContext | None = None,
) -> RunResult:
    """Run a command in the image of an output directory, and return its exit code and output.

    Of standard output, the first 32 MiB are kept, and one byte more if there was more. Of standard error, the last
    32 MiB are kept. The command itself runs on.

    Raises:
        UsageError: an option is not valid, the command is one text, or the directory holds no image.
        EngineError: the engine fails.
    """
    check_command(command)
    code, stdout, stderr = runs.run_silently(Path(out), command, context or open_context(), options)
    return RunResult(code=code, stdout=stdout, stderr=stderr)


def compare(first: str, second: str, *, context: RunContext | None = None) -> ComparisonResult:
    """Compare two environments, the likeliest culprit of other results first.

    Args:
        first, second: a snapshot, lock, output directory or image, or `here` for this process.
        context: the environment in which the names are read; by default this process's.

    Raises:
        ReproError: one of the two cannot be read.
    """
    context = context or open_context()
    here = environments.Running(python=sys.executable, env=process_environment())
    return ComparisonResult(comparison=environments.compare(first, second, here, context.env, context.say))


def _check_parts(options: VerifyOptions) -> None:
    refuse_text("VerifyOptions: parts", options.parts)
    check_parts(options)
