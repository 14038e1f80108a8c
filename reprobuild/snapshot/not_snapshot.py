"""Errors for a path that holds no snapshot: the cause, and the next command."""

from __future__ import annotations

import re
from pathlib import Path

from reprobuild.errors import SnapshotError
from reprobuild.infra.display import escape_text

RECIPE = (
    "take one with `reprobuild capture -o DIR`, or name the directory that holds env.txt and requirements.txt"
)
# An address as a path: `Path` makes one slash of two.
_ADDRESS = re.compile(r"(?:[a-z][a-z+]*:/|git@)")


def missing_error(path: Path) -> SnapshotError:
    """Return the error for a path that does not exist."""
    shown = escape_text(str(path))
    if _ADDRESS.match(str(path)):
        return SnapshotError(
            f"`{shown}` is an address, and a snapshot is a directory of a captured environment",
            hint="clone it, activate its environment, and take a snapshot there: `reprobuild capture -o DIR`",
        )
    return SnapshotError(f"there is no directory `{shown}`", hint=RECIPE)


def file_error(path: Path) -> SnapshotError:
    """Return the error for a file in the place of a directory."""
    return SnapshotError(f"`{escape_text(str(path))}` is a file", hint="name the directory that it stands in")


def nothing_error(folder: Path, inside: Path | None) -> SnapshotError:
    """Return the error for a directory without a captured file.

    Args:
        folder: the directory.
        inside: a directory in it that holds a snapshot, if any.
    """
    message = f"nothing captured in `{escape_text(str(folder))}`"
    if inside:
        return SnapshotError(message, hint=f"did you mean `{escape_text(str(inside))}`?")
    return SnapshotError(message, hint=RECIPE)
