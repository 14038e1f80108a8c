"""The lock to build from: a given one, that of the output directory, or a new one."""

from __future__ import annotations

from pathlib import Path

from reprobuild.config.overrides import Decisions
from reprobuild.context import RunContext
from reprobuild.errors import LockError
from reprobuild.infra.shell_words import quote_path
from reprobuild.lock.file import read_lock, write_new_lock
from reprobuild.lock.model import Lock
from reprobuild.output.directory import LOCK
from reprobuild.output.foreign import lock_backup_path
from reprobuild.pipeline.fetch_inputs import list_missing_inputs
from reprobuild.pipeline.stated_decisions import refuse_other_decisions
from reprobuild.resolve.interpreter.restore import restore_interpreter
from reprobuild.resolve.markers import select_environment_lines
from reprobuild.resolve.override_secrets import refuse_secrets
from reprobuild.resolve.resolver import resolve_snapshot
from reprobuild.resolve.source_lines import lock_sources, name_repositories
from reprobuild.snapshot.model import Snapshot
from reprobuild.store.roots import is_lock_of_here, record_lock, remember_lock


def choose_lock(
    snapshot: Snapshot,
    captured: Path,
    out: Path,
    decisions: Decisions,
    context: RunContext,
    lock_path: Path | None,
) -> Lock:
    """Return the lock to build from, with its sources in the store.

    The sources of an existing lock, and its packed Python, are made again if the store lacks them.

    Raises:
        LockError: the given lock is of another snapshot, of other decisions or of other sources.
        FetchError: its packed Python cannot be had.
    """
    lock = read_lock(lock_path) if lock_path else _read_former_lock(out / LOCK, snapshot, decisions, context)
    if lock is None or (lock_path is None and not is_lock_of_here(lock, context.store)):
        return _make_lock(snapshot, captured, out / LOCK, decisions, context, strange=lock)
    if lock.snapshot != snapshot.digest:
        raise LockError(
            f"{lock_path} was made from another snapshot ({lock.snapshot[:12]}, not {snapshot.digest[:12]})",
            hint="make a new lock with `reprobuild lock DIR`",
        )
    if lock_path is not None:
        refuse_other_decisions(lock, decisions, lock_path, captured, context.say)
    context.say(f"lock: {lock.digest[:12]}, {f'of {lock_path}' if lock_path else 'made here before'}")
    if not all(context.store.has(source.file.sha256, source.file.size) for source in lock.sources):
        here, _ = select_environment_lines(snapshot, lock.interpreter.version, lock.machine, decisions.drop)
        resolution = context.resolve_context(captured)
        sources, _ = lock_sources(name_repositories(here, decisions, resolution), decisions, resolution)
        digests = {source.file.sha256 for source in sources}
        if other := [source for source in lock.sources if source.file.sha256 not in digests]:
            raise LockError(
                "the sources are not those of the lock: "
                + ", ".join(f"{source.file.filename} (sha256 {source.file.sha256})" for source in other),
                hint="find the locked commit and its changes, or make a new lock with `reprobuild lock DIR`",
            )
    python = lock.interpreter
    if python.kind == "captured" and python.file in list_missing_inputs(lock, context.store):
        restore_interpreter(lock, snapshot, context.resolve_context(captured))
    return lock


def _make_lock(
    snapshot: Snapshot,
    captured: Path,
    path: Path,
    decisions: Decisions,
    context: RunContext,
    strange: Lock | None,
) -> Lock:
    """Make a new lock of the snapshot.

    An untrusted lock at its path is renamed and kept.
    """
    aside = path if strange is None else lock_backup_path(path, strange)
    if strange is not None:
        context.say(
            f"lock: {path} is not known to be made here, so a new one is made, and it is kept as {aside}; "
            f"to follow it: --lock {quote_path(aside)}"
        )
    lock = resolve_snapshot(snapshot, decisions, context.resolve_context(captured))
    if strange is not None:
        path.replace(aside)
        record_lock(strange, aside, context.store)
    write_new_lock(lock, path)
    remember_lock(lock, context.store)
    record_lock(lock, path, context.store, "lock")
    return lock


def _read_former_lock(
    path: Path, snapshot: Snapshot, decisions: Decisions, context: RunContext
) -> Lock | None:
    """Return the lock at a path if snapshot and decisions match.

    It may come from anyone.
    """
    if not path.exists():
        return None
    refuse_secrets(decisions)  # an earlier program wrote such locks
    lock = read_lock(path)
    if lock.snapshot == snapshot.digest and lock.decisions.as_dict() == decisions.lock_document():
        return lock
    context.say(f"lock: {path} is of another snapshot or other decisions; making a new one")
    return None
