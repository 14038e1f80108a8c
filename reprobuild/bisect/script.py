"""The script of a command: whether the images or the mounts of a search have it."""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

from reprobuild.bisect.trial import TrialCommand
from reprobuild.errors import ReproError, UsageError
from reprobuild.infra.display import display_path, display_text
from reprobuild.infra.suggest import find_close
from reprobuild.infra.tar.reading import read_tar
from reprobuild.infra.untrusted.tars import UNREADABLE
from reprobuild.lock.model import Lock
from reprobuild.lock.python import Source
from reprobuild.run.options import read_volumes

OpenSource = Callable[[Source], AbstractContextManager[IO[bytes]]]
_PROGRAM = re.compile(r"python[0-9.]*|bash|sh")
# Options before a script that take the next word: https://docs.python.org/3/using/cmdline.html
_WITH_VALUE = ("-W", "-X")
# Options after which no script follows.
_WITHOUT_SCRIPT = re.compile(r"-[A-Za-z]*[cms]|--.*")
# Top directories that packages, the engine or the interpreter fill.
_OF_SYSTEM = frozenset(
    (
        "bin",
        "boot",
        "dev",
        "etc",
        "lib",
        "lib32",
        "lib64",
        "opt",
        "proc",
        "run",
        "sbin",
        "srv",
        "sys",
        "usr",
        "var",
    )
)


def check_script(command: TrialCommand, locks: Sequence[Lock], open_source: OpenSource) -> None:
    """Refuse a command whose script no image and no mount has.

    A path is not judged if packages or a base image may have it.

    Raises:
        UsageError: the script is missing on both sides.
    """
    script = find_script(command.arguments)
    if script and all(_is_missing(script, lock, command, open_source) for lock in locks):
        place = _place(script, locks[0], command)
        raise UsageError(
            f"no image has {display_text(place)}, the script of the command: it is of no repository and no mount",
            hint=_advise(script, locks[0], command, open_source),
        )


def find_script(arguments: Sequence[str]) -> str:
    """Return the script of `python SCRIPT` or `sh SCRIPT`, or an empty text."""
    if not arguments or not _PROGRAM.fullmatch(posixpath.basename(arguments[0])):
        return ""
    words = iter(arguments[1:])
    for word in words:
        if not word.startswith("-"):
            return "" if "{" in word else word
        if word in _WITH_VALUE:
            next(words, None)
        elif _WITHOUT_SCRIPT.fullmatch(word) or word == "-":
            return ""
    return ""


def _place(script: str, lock: Lock, command: TrialCommand) -> str:
    """Return the absolute path of a script in an image."""
    return posixpath.normpath(posixpath.join(command.options.workdir or lock.workdir, script))


def _is_missing(script: str, lock: Lock, command: TrialCommand, open_source: OpenSource) -> bool:
    """Return whether an image certainly lacks a script."""
    place = _place(script, lock, command)
    mounts, _ = read_volumes(command.options.volumes)
    for outside, inside in sorted(mounts, key=lambda mount: -len(mount[1])):
        below = _below(place, inside)
        if below is not None:
            return not os.path.lexists(Path(outside, below))
    if lock.base.image is not None:
        return False
    for source in lock.sources:
        below = _below(place, source.path)
        if below is not None:
            return source.watched and not _may_hold(source, below, open_source)
    return place.split("/")[1] not in _OF_SYSTEM


def _below(path: str, root: str) -> str | None:
    """Return a path below a directory, or None if it is not there."""
    root = posixpath.normpath(root).rstrip("/")
    return path[len(root) + 1 :] if path.startswith(f"{root}/") else None


def _may_hold(source: Source, path: str, open_source: OpenSource) -> bool:
    """Return whether a source may have a file: true for what a link or a build may bring."""
    names = _list_names(source, open_source)
    parents = {path[:at] for at, sign in enumerate(path) if sign == "/"}
    return names is None or path in names or any(names.get(parent) == "symlink" for parent in parents)


def _list_names(source: Source, open_source: OpenSource) -> dict[str, str] | None:
    """Return the type of each path of a source, or None if it cannot be read."""
    try:
        with open_source(source) as stream:
            return {entry.path: entry.type for entry, _ in read_tar(stream, f"the source {source.name}")}
    except (ReproError, OSError, *UNREADABLE):
        return None


def _advise(script: str, lock: Lock, command: TrialCommand, open_source: OpenSource) -> str:
    here = Path(script).absolute()
    if here.is_file() and ":" not in str(here):
        if posixpath.isabs(script):
            folder = shlex.quote(str(here.parent))
            return f"it is on this machine: mount its directory: -v {folder}:{folder}"
        return 'it is here: mount this directory, and start in it: -v "$PWD":/job --workdir /job'
    place = _place(script, lock, command)
    for source in lock.sources:
        below = _below(place, source.path)
        if below is not None:
            names = [
                path for path, kind in (_list_names(source, open_source) or {}).items() if kind == "file"
            ]
            names.sort(key=lambda name: name.rpartition("/")[2] != below.rpartition("/")[2])
            if close := find_close(below, names):
                return f"did you mean `{shlex.quote(display_path(close))}`, in {display_text(source.path)}?"
    return "name a script of the image, or mount its directory, and start in it: -v DIR:/job --workdir /job"
