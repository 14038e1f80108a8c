"""Remedies for errors of the operating system: what to type if a place cannot be written."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from reprobuild.infra.cache_directory import find_cache_directory

_KEPT = "what was complete is kept, the next run goes on"
_ROOM = f"make room there, or name other directories (--store, --output); {_KEPT}"
_IN_THE_WAY = "a file stands where a directory is needed: name another place (--store, --output)"
_REMEDIES = {
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.EEXIST: _IN_THE_WAY,
    errno.ENOTDIR: _IN_THE_WAY,
    errno.EROFS: "it is mounted read-only: name other directories (--store, --output), or mount it for writing",
}
_FORBIDDEN = {
    errno.EACCES: "you may not write there",
    errno.EPERM: "you may not write there",
    errno.EROFS: "it is mounted read-only",
}
_FULL = (errno.ENOSPC, errno.EDQUOT)
_OUTPUT, _STORE = ("-o", "--output"), ("--store",)
_DEFAULTS = ("frozen", "snapshot", "reprobuild.lock")  # values of -o


def has_remedy(err: OSError) -> bool:
    """Return whether an error that names no file is known."""
    return err.errno in _REMEDIES


def find_remedy(err: OSError, arguments: Sequence[str], env: Mapping[str, str]) -> str:
    """Return the hint for an error of the operating system.

    Args:
        err: the error; its file tells which option names another place.
        arguments: the command line after the name of the program.
        env: of this process.
    """
    place = _find_place(err, arguments, env)
    if place and err.errno in _FORBIDDEN:
        return f"{_FORBIDDEN[err.errno or 0]}: {place}"
    if place and err.errno in _FULL:
        return f"make room there, or {place}; {_KEPT}"
    return _REMEDIES.get(err.errno or 0, "check the path, its permissions and the space left")


def _find_place(err: OSError, arguments: Sequence[str], env: Mapping[str, str]) -> str:
    """Return how to name another place than the file of an error, or an empty text."""
    if err.filename is None:
        return ""
    path = Path(os.path.normpath(Path(os.fsdecode(err.filename)).absolute()))
    if _is_of(path, _read_option(arguments, _STORE)):
        return "name another store with --store DIR"
    output = _read_option(arguments, _OUTPUT)
    if any(_is_of(path, name) for name in ([output] if output else _DEFAULTS)):
        return "name another place with -o PATH"
    cache = find_cache_directory(env)
    if cache and _is_of(path, str(cache)):
        return "let XDG_CACHE_HOME name a directory of yours (`export XDG_CACHE_HOME=DIR`)" + (
            ", or name the store alone with --store DIR" if not _read_option(arguments, _STORE) else ""
        )
    return ""


def _read_option(arguments: Sequence[str], names: Sequence[str]) -> str:
    """Return the value of an option of a command line, or an empty text."""
    words = arguments[: arguments.index("--")] if "--" in arguments else arguments
    for number, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in names:
            return value if equals else "".join(words[number + 1 : number + 2])
    return ""


def _is_of(path: Path, place: str) -> bool:
    """Return whether a path is a place, is below it, or is a temporary file beside it or a directory above it."""
    if not place:
        return False
    folder = Path(os.path.normpath(Path(place).absolute()))
    beside = path.parent == folder.parent and folder.name in path.name
    return path in (folder, *folder.parents) or folder in path.parents or beside
