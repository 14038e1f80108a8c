"""A root with this machine's programs, for a reader of untrusted files.

It shows the directories of the system, a few settings, and the Python of the program, all read-only. The user's home
directory and the machine's other files are not in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from reprobuild.errors import EngineError
from reprobuild.infra import proc
from reprobuild.infra.sandbox.model import Bind, Root
from reprobuild.infra.sandbox.namespaces import can_mount_overlay, check_namespaces

# Directories of programs and libraries; Nix and Guix have their own.
_SYSTEM = ("bin", "gnu", "lib", "lib32", "lib64", "libx32", "nix", "opt", "sbin", "usr")
_ADDED = ("gnu", "nix", "opt")  # without another mount inside; a program of theirs is shown by itself
# Settings without which libraries, alternatives of Debian, R, fonts and Ghostscript are not found.
_SETTINGS = ("R", "alternatives", "fonts", "ghostscript", "ld.so.cache", "magic")
_MOST_LINKS = 40  # as the kernel follows, https://man7.org/linux/man-pages/man7/path_resolution.7.html
# pip's first lines of a script whose interpreter has a long path.
_LONG = re.compile(rb"#!/bin/sh\n'''exec' \"?(/[^\"\n]+?)\"? \"\$0\"")
_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPE = re.compile(r"\\([0-7]{3})")


def make_program_root(folder: Path, program: str, env: Mapping[str, str]) -> Root:
    """Make a root in which a program of this machine starts.

    Args:
        folder: an empty directory; it is written to.
        program: the absolute path of the program.
        env: PATH is taken from it.

    Raises:
        EngineError: this machine has no user namespaces, or a mount in a shown directory would be writable.
    """
    check_namespaces()
    (folder / "tmp").mkdir()  # for the layer
    shown = []
    for name in _SYSTEM:
        place = Path("/", name)
        if place.is_symlink():
            (folder / name).symlink_to(place.readlink())
        elif place.is_dir() and not (name in _ADDED and _find_writable_mount(place)):
            shown.append(place)
    shown += [place for name in _SETTINGS if (place := Path("/etc", name)).exists()]
    for place in sorted({*_program_places(program, env)}):  # parents before their directories
        if not any(place.is_relative_to(outer) for outer in (Path("/etc"), *shown)):
            shown.append(place)
    for place in shown:
        if point := _find_writable_mount(place):
            raise EngineError(
                f"{place} has another mount inside, {point}, which a sandbox cannot protect",
                hint="leave --diffoscope out, or run it where this mount is read-only",
            )
    binds = tuple(Bind(source=place, target=str(place)) for place in shown)
    return Root(folder=folder, layered=can_mount_overlay(), binds=binds)


def _program_places(program: str, env: Mapping[str, str]) -> Iterator[Path]:
    """Yield the directories that a program and its interpreter need."""
    for file in (program, _interpreter(Path(program).resolve(), env)):
        path = Path(os.path.normpath(file)) if file else Path()
        for _ in range(_MOST_LINKS if file else 0):
            prefix = path.parent.parent
            yield prefix if _is_prefix(prefix) else path.parent
            if not path.is_symlink():
                break
            path = Path(os.path.normpath(path.parent / path.readlink()))
        else:
            continue
        yield prefix if _is_prefix(prefix := path.resolve().parent.parent) else path.resolve().parent


def _is_prefix(folder: Path) -> bool:
    """Return whether a directory is an environment or an installation of Python."""
    if folder == Path("/"):
        return False
    return (folder / "pyvenv.cfg").is_file() or any(folder.glob("lib*/python3*/os.py"))


def _interpreter(script: Path, env: Mapping[str, str]) -> str:
    """Return the interpreter of a script, or ""."""
    with script.open("rb") as stream:
        start = stream.read(4096)
    if long := _LONG.match(start):
        return os.fsdecode(long[1])
    words = start[2:].split(b"\n")[0].split() if start.startswith(b"#!") else []
    if len(words) > 1 and words[0].endswith(b"/env"):
        return proc.which(os.fsdecode(words[1]), env) or ""
    return os.fsdecode(words[0]) if words and words[0].startswith(b"/") else ""


def _find_writable_mount(place: Path) -> Path | None:
    """Return a mount below a directory that would stay writable, or None."""
    for line in _MOUNTS.read_text().splitlines():
        point = Path(_ESCAPE.sub(lambda match: chr(int(match[1], 8)), line.split(" ")[4]))
        inside = point != place.resolve() and point.is_relative_to(place.resolve())
        if inside and os.access(point, os.W_OK):
            return point
    return None
