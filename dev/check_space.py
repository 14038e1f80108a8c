"""Checks that a directory has room for the files of the tests, before they run for an hour."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

GIB = 1 << 30
NEEDED = 28  # GiB; measured at the end of a whole run: 21 in TMPDIR and 5 in .engine


def shortage(folder: Path, needed: int = NEEDED) -> str:
    """Return the error and its hint if `folder` has less than `needed` GiB, or an empty text."""
    free = shutil.disk_usage(folder).free / GIB
    if free >= needed:
        return ""
    return (
        f"error: {folder} has {free:.0f} GiB of free space, and the tests write up to {needed} GiB\n"
        "hint: free some space, or name another directory: TMPDIR=DIRECTORY make test"
    )


if __name__ == "__main__":
    sys.exit(shortage(Path(tempfile.gettempdir())) or None)
