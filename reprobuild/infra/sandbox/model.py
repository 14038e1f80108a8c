"""The view of a sandboxed command, and its outputs."""

from __future__ import annotations

import stat
from pathlib import Path

from msgspec import Struct

from reprobuild.errors import BuildError

_ODD = "a package or source that does so is hostile, or broken; leave it out"


class Bind(Struct, frozen=True, kw_only=True):
    """A file or directory of the host, visible at `target`.

    `target` is absolute; it is read-only by default.
    """

    source: Path
    target: str
    writable: bool = False


class Root(Struct, frozen=True, kw_only=True):
    """A directory with a system in it.

    It must have /usr/bin/env. If it is `layered` (see `can_layer`), the command's changes are lost with it
    and the directory stays as it is. Else it is written to, and gets missing mount points and places of
    binds. Every command in it sees its `binds`.
    """

    folder: Path
    layered: bool = False
    binds: tuple[Bind, ...] = ()


def check_output_file(path: Path, program: str) -> Path:
    """Return a command's file in a writable bind.

    It is for reading outside the sandbox.

    Args:
        path: its required path; the parent directory must be one that the command could not replace.
        program: the program that ran, for the error.

    Raises:
        BuildError: it is absent, or a link or device, which would be followed or waited for outside.
    """
    try:
        kind = path.lstat().st_mode
    except OSError as err:
        raise BuildError(f"{program} left no {path.name}: {err.strerror}", hint=_ODD) from None
    if not stat.S_ISREG(kind):
        raise BuildError(f"{program} left {path.name} as something else than a file", hint=_ODD)
    return path
