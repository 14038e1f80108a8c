"""Pin a snapshot."""

from __future__ import annotations

from pathlib import Path

from reprobuild.api.context import open_context
from reprobuild.config.argument_forms import check_decisions
from reprobuild.config.overrides import Decisions
from reprobuild.context import RunContext
from reprobuild.lock.file import write_new_lock
from reprobuild.lock.model import Lock
from reprobuild.resolve.resolver import resolve_snapshot
from reprobuild.snapshot import read
from reprobuild.snapshot.importers.import_snapshot import open_snapshot
from reprobuild.store.roots import record_lock, remember_lock

NO_DECISIONS = Decisions()


def lock(
    folder: Path | str,
    target: Path | str,
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
