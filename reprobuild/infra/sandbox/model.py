"""What a command in the sandbox sees, and what it leaves behind."""

from __future__ import annotations

import stat
from pathlib import Path

from msgspec import Struct

from reprobuild.errors import BuildError

_ODD = "a package or source that does so is hostile, or broken; leave it out"


class Bind(Struct, frozen=True, kw_only=True):
    """A file or folder of the host that the command sees at `target` (absolute), read-only by default."""

    source: Path
    target: str
    writable: bool = False


class Root(Struct, frozen=True, kw_only=True):
    """A folder with a system in it; it must have /usr/bin/env.

    Where it is `layered` (see `can_layer`), what the command writes is lost with it and the folder stays as
    it is. Else it is written to, and gets the mount points and the places of binds that it lacks. Every command
    in it sees its `binds`.
    """

    folder: Path
    layered: bool = False
    binds: tuple[Bind, ...] = ()


def left_behind(path: Path, program: str) -> Path:
    """Return a file that a command left in a writable bind, to be read outside of the sandbox.

    Args:
        path: where it must stand; the folder above must be one that the command could not replace.
        program: what ran, for the error.

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
