"""The lock of an environment that the user names: a lock, an output directory or a snapshot."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

from reprobuild.config.overrides import Decisions
from reprobuild.context import RunContext
from reprobuild.errors import LockError, SnapshotError, UsageError
from reprobuild.infra.display import display_text
from reprobuild.infra.shell_words import quote_path
from reprobuild.infra.suggest import suggest_path
from reprobuild.lock.file import read_lock, write_new_lock
from reprobuild.lock.model import Lock
from reprobuild.lock.python import Source
from reprobuild.output.directory import LOCK
from reprobuild.pipeline.choose_lock import choose_lock
from reprobuild.pipeline.fetch_inputs import fetch_inputs
from reprobuild.resolve.updates import update_lock
from reprobuild.snapshot.importers.import_snapshot import can_import, import_into, needs_import
from reprobuild.snapshot.importers.own_snapshot import find_own_snapshot
from reprobuild.snapshot.read import read_snapshot
from reprobuild.store.roots import gc_root, is_lock_of_here, record_lock
from reprobuild.store.salvage import take_context

# Returns the overrides of a snapshot's directory, and the context for them.
Decide = Callable[[Path], tuple[Decisions, RunContext]]
_HERE = "here"
_SHOWN = 10  # changed versions in one line
_GIVE = "give a lock, an output directory, a snapshot, or the word `here`"


def lock_side(
    name: str, folder: Path, decide: Decide, context: RunContext, captured: Path | None = None
) -> Lock:
    """Return the lock of an environment; a snapshot is locked now.

    Files that only an output directory has are taken into the store.

    Args:
        name: its path, or `here` for the snapshot `captured`.
        folder: an empty directory for the lock of a snapshot.
        decide: returns the overrides of a snapshot's directory, and the context for them.
        context: of the run.

    Raises:
        UsageError: the path is absent, or an image without its lock.
        LockError, SnapshotError: the environment is damaged, or cannot be locked.
    """
    path = captured or Path(name)
    if not path.exists():
        raise UsageError(f"there is nothing at {display_text(name)}", hint=suggest_path(path) or _GIVE)
    if path.is_dir() and (path / LOCK).is_file():
        lock = read_lock(path / LOCK)
        take_context(path, lock, context.store)
        return lock
    if path.is_dir() and (path / "index.json").is_file():
        raise UsageError(f"{display_text(name)} is an image, and only a lock can be mixed", hint=_GIVE)
    if path.is_file() and not can_import(path):
        return read_lock(path)
    captured = captured or find_own_snapshot(path) or path
    if captured == path and needs_import(path):
        captured = folder / "snapshot"
        import_into(path, captured)
        context.say(f"imported {name}")
    decisions, deciding = decide(path)
    out = folder / "out"
    out.mkdir()
    try:
        return choose_lock(read_snapshot(captured), captured, out, decisions, deciding, None)
    except (LockError, SnapshotError) as err:
        err.hint = "\n".join((_advise_lock(name), err.hint))
        raise


def _advise_lock(name: str) -> str:
    first = "lock it with the options that follow, and name that lock: "
    if name == _HERE:
        return f"{first}`reprobuild capture -o side`, then `reprobuild lock side -o side.lock`"
    return f"{first}`reprobuild lock {quote_path(display_text(name))} -o side.lock`"


def update_side(lock: Lock, target: Path | None, context: RunContext) -> tuple[Lock, str]:
    """Return a lock with today's versions, and a line on them.

    Args:
        lock: whose top-level requirements are solved again.
        target: the file to write it to, for the user; None for no file.
        context: of the run.

    Raises:
        UsageError, LockError, FetchError: see `update_lock`.
    """
    foreign = not is_lock_of_here(lock, context.store)
    update = update_lock(lock, f"{context.today}", context.resolve_context(), foreign=foreign)
    if target is not None:
        write_new_lock(update.lock, target)
        record_lock(update.lock, target, context.store, "bisect")
    changes = [
        f"{name} {' -> '.join(version or '(absent)' for version in pair)}"
        for name, pair in update.changes.items()
    ]
    more = f" and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
    line = (
        f"today's versions of {', '.join(update.requirements)}: "
        + (", ".join(changes[:_SHOWN]) or "no other")
        + more
    )
    context.say(line)
    return update.lock, line


@contextlib.contextmanager
def keep_inputs(locks: tuple[Lock, Lock], folder: Path, context: RunContext) -> Iterator[None]:
    """Fetch the files of two locks, and keep them in the store while they are used.

    Raises:
        FetchError: a file is unavailable.
    """
    with (
        gc_root(locks[0], folder / "first.lock", context.store, "bisect"),
        gc_root(locks[1], folder / "second.lock", context.store, "bisect"),
    ):
        for lock in locks:
            fetch_inputs(lock, context)
        yield


def open_source(source: Source, context: RunContext) -> AbstractContextManager[IO[bytes]]:
    """Open the tar of a source's tree in the store.

    Raises:
        FetchError: it is not there, or damaged.
    """
    return context.store.verified(source.file.sha256, f"the source {source.name}").open("rb")
