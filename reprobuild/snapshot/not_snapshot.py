"""Errors for a path that holds no snapshot: the cause, and the next command."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from reprobuild.errors import SnapshotError
from reprobuild.infra.display import escape_text

RECIPE = (
    "take one with `reprobuild capture -o DIR`, or name the directory that holds env.txt and requirements.txt"
)
# An address as a path: `Path` makes one slash of two.
_ADDRESS = re.compile(r"(?:[a-z][a-z+]*:/|git@)")
_ARCHIVE = re.compile(r".*(?:\.zip|\.tar|\.tgz|\.tar\.\w+)")
# Files of other tools that name an environment, but are not read.
_LOCKS = ("uv.lock", "pylock.toml", "poetry.lock", "pdm.lock", "Pipfile.lock", "pixi.lock")


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
    shown = escape_text(str(path))
    if _ARCHIVE.fullmatch(path.name):
        program = "unzip -d snapshot" if path.suffix == ".zip" else "mkdir snapshot && tar -C snapshot -xf"
        return SnapshotError(
            f"`{shown}` is an archive",
            hint=f"unpack it, and name the directory: `{program} {shlex.quote(str(path))}`",
        )
    return SnapshotError(f"`{shown}` is a file", hint="name the directory that it stands in")


def nothing_error(folder: Path, inside: Path | None) -> SnapshotError:
    """Return the error for a directory without a captured file.

    Args:
        folder: the directory.
        inside: a directory in it that holds a snapshot, if any.
    """
    message = f"nothing captured in `{escape_text(str(folder))}`"
    if inside:
        return SnapshotError(message, hint=f"did you mean `{escape_text(str(inside))}`?")
    name = next((name for name in _LOCKS if (folder / name).is_file()), "")
    if not name:
        return SnapshotError(message, hint=RECIPE)
    target = shlex.quote(str(folder / "requirements.txt"))
    command = (
        f"uv export --frozen --directory {shlex.quote(str(folder))} -o requirements.txt"
        if name == "uv.lock"
        else f"pip freeze --all > {target}"
    )
    where = "write its list" if name == "uv.lock" else "write the list in the environment that ran"
    return SnapshotError(f"{message}: {name} is not read", hint=f"{where}: `{command}`")
