"""The number of files of each unpacked layer: a purge of old files takes some of a layer, and leaves its directories.

The note of a layer is its number of entries. Its time is that of the last count, so that a purge by age leaves it. They
are counted again after some hours: a purge counts in days, and a start of a container may not take seconds.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from msgspec import Struct

from reprobuild.engines.builtin_unpack import MOST_ENTRIES
from reprobuild.infra.untrusted.regular_files import read_plain
from reprobuild.infra.walk import walk

_SECONDS = 12 * 3600  # until a layer is counted again
_LARGEST = 100  # bytes of a note


class LayerCounts(Struct, frozen=True):
    """The notes of layers, in a directory beside them."""

    folder: Path

    def note(self, layer: Path) -> None:
        """Note the number of files of a complete layer; without room for the note, it is unpacked again next time."""
        with contextlib.suppress(OSError):
            (self.folder / layer.name).write_text(str(_count(layer)))

    def is_whole(self, layer: Path) -> bool:
        """Return whether a layer has as many files as when it was unpacked."""
        note = self.folder / layer.name
        try:
            noted, age = read_plain(note, _LARGEST, links=False), time.time() - note.stat().st_mtime
            if 0 <= age < _SECONDS:
                return layer.is_dir()
            if str(_count(layer)).encode() != noted:
                return False
        except OSError:
            return False
        with contextlib.suppress(OSError):  # of a cache that is read-only
            os.utime(note)
        return True

    def forget(self, layer: Path) -> None:
        """Remove the note of a layer."""
        (self.folder / layer.name).unlink(missing_ok=True)


def _count(layer: Path) -> int:
    """Return the number of files and directories below a layer that this user can list."""
    unlisted: list[OSError] = []
    below = walk(layer, MOST_ENTRIES, unlisted.append)
    return sum(len(folders) + len(files) for _, folders, files in below) + len(unlisted)
