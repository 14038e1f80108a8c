"""The failures beside the first one: indexes, repositories and sources that fail, too."""

from __future__ import annotations

from collections.abc import Sequence

from reprobuild.config.overrides import Decisions, is_named
from reprobuild.ecosystems.pypi.files import FileLists
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.python.context import filter_index_lines
from reprobuild.resolve.python.unreachable import Lost, check_availability
from reprobuild.resolve.source_lines import try_sources
from reprobuild.snapshot.model import Snapshot


def raise_all(
    lost: Sequence[Lost], snapshot: Snapshot, decisions: Decisions, files: FileLists, context: ResolveContext
) -> None:
    """Raise an early failure with all that fails besides it.

    The machine's indexes are asked for one project, and the repositories are fetched.

    Args:
        lost: the errors so far.
        snapshot: the lines of the environment.
        decisions: the overrides.
        files: the file lists of the machine's indexes.
        context: the store and the network.

    Raises:
        FetchError: an index is unavailable. LockError, SnapshotError: as the first failure.
    """
    tried = try_sources(snapshot, decisions, context)
    check_availability(
        (*lost, *lost_indexes(snapshot, decisions, files, context), *tried.refused),
        tried.rulings,
        decisions.accept,
    )


def lost_indexes(
    snapshot: Snapshot, decisions: Decisions, files: FileLists, context: ResolveContext
) -> Sequence[Lost]:
    """Return an error for each of the machine's indexes that gives no list of one project of the snapshot."""
    lines = [line for line in snapshot.requirements if not is_named(line.name, decisions.drop)]
    names = sorted(line.name for line in filter_index_lines(lines, context.services))
    return files.lost(names[0]) if names and not context.net.offline else ()
