"""Errors for a path that holds no snapshot: the cause, and the next command."""

from __future__ import annotations

import os
import re
from pathlib import Path

from reprobuild.errors import SnapshotError
from reprobuild.infra.display import escape_text
from reprobuild.infra.shell_words import quote_path
from reprobuild.infra.suggest import suggest_path

RECIPE = (
    "take one with `reprobuild capture -o DIR`, or name the directory that holds env.txt and requirements.txt"
)
# The files by which an output directory is known, and those of it that a person may look for.
OUTPUT_FILES = ("image.json", "reprobuild.lock")
OUTPUT_SNAPSHOT, OUTPUT_REPORT = "snapshot", "report.html"
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
    return SnapshotError(f"there is no directory or file `{shown}`", hint=suggest_path(path) or RECIPE)


def refuse_unreadable(path: Path) -> None:
    """Refuse a directory of which this user may not read the files.

    Raises:
        SnapshotError: it is one.
    """
    try:
        if path.is_dir():
            os.scandir(path).close()
    except PermissionError:
        raise SnapshotError(
            f"`{escape_text(str(path))}` cannot be read by this user",
            hint="a snapshot is private: let its owner copy it, or open it: "
            f"`chmod -R g+rX {quote_path(escape_text(str(path)))}`",
        ) from None


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


def is_output(path: Path) -> bool:
    """Return whether a path is an output directory, with an image and its lock."""
    return all((path / name).is_file() for name in OUTPUT_FILES)


def output_error(path: Path) -> SnapshotError:
    """Return the error for an output directory in the place of a snapshot."""
    shown, snapshot, report = escape_text(str(path)), path / OUTPUT_SNAPSHOT, path / OUTPUT_REPORT
    parts = [
        f"its {word} is `{escape_text(str(part))}`"
        for word, part in (("snapshot", snapshot), ("report", report))
        if part.exists()
    ]
    return SnapshotError(
        f"`{shown}` is an output directory, and no snapshot" + "".join(f"; {part}" for part in parts),
        hint=f"name its snapshot; `reprobuild show {quote_path(escape_text(str(snapshot)))}` shows it"
        if snapshot.is_dir()
        else f"name the snapshot that it was made of; `reprobuild verify {quote_path(escape_text(str(path)))}` "
        "checks its image",
    )
