"""One allowance for all work trees of a restoration.

A snapshot may have thousands of repositories, each just within its own bounds.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from reprobuild.ecosystems.git.restore.bundle import damage_error
from reprobuild.errors import EngineError
from reprobuild.infra.untrusted.names import MOST_MEMBERS, most_bytes
from reprobuild.snapshot.capture_model import CapturedRepository


class RestoreAllowance:
    """The work trees so far: their objects, bytes and files."""

    def __init__(self) -> None:
        self._packed = self._total = self._count = 0

    def take(self, repository: CapturedRepository, place: Path, packed: int, total: int, count: int) -> None:
        """Add a work tree, before a file of it is written.

        Args:
            repository: the captured one.
            place: its directory.
            packed: the bytes of its objects.
            total: the bytes of its files and directories.
            count: their number.

        Raises:
            SnapshotError: all work trees together have far more bytes than their objects, or too many files.
            EngineError: the disk has no room for it.
        """
        self._packed, self._total, self._count = (
            self._packed + packed,
            self._total + total,
            self._count + count,
        )
        if self._total > most_bytes(self._packed) or self._count > MOST_MEMBERS:
            raise damage_error(
                repository,
                f"it and the work trees around it unpack to {self._count} files and directories of "
                f"{self._total} bytes, from {self._packed} bytes of objects",
            )
        free = shutil.disk_usage(place).free
        if total > free:
            raise EngineError(
                f"the captured repository {repository.name} has files of {total} bytes, and {free} are free",
                hint="make room, or name a directory on another disk with -o",
            )
