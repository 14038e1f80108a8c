"""Read a snapshot, or import a run as one."""

from __future__ import annotations

from pathlib import Path

from reprobuild.snapshot import read
from reprobuild.snapshot.import_facts import ImportFacts
from reprobuild.snapshot.importers.import_snapshot import import_into, open_snapshot
from reprobuild.snapshot.model import Snapshot


def read_snapshot(folder: Path | str) -> Snapshot:
    """Return the snapshot in a directory, or of a path that can be imported.

    Raises:
        SnapshotError: it is missing or damaged, or of no known format.
    """
    with open_snapshot(Path(folder)) as directory:
        return read.read_snapshot(directory)


def import_snapshot(path: Path | str, out: Path | str) -> ImportFacts:
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
