"""A lock as a file."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from reprobuild.errors import LockError
from reprobuild.lock.model import Lock, encode
from reprobuild.whole import write_file

VERSION = 2


class _Header(Struct):
    """What a lock of any version begins with."""

    version: int


def read_lock(path: Path) -> Lock:
    """Read a lock file.

    Raises:
        LockError: it is absent, not a lock, or of a version that this program does not know.
    """
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise LockError(f"there is no lock at {path}", hint="make one with `reprobuild lock DIR`") from None
    except OSError as err:
        raise LockError(f"{path} cannot be read: {err.strerror}", hint="check its permissions") from None
    try:
        version = msgspec.json.decode(raw, type=_Header).version
        lock = msgspec.json.decode(raw, type=Lock) if version == VERSION else None
    except (msgspec.ValidationError, msgspec.DecodeError) as err:
        raise LockError(
            f"{path} is not a lock: {err}", hint="make it again with `reprobuild lock DIR`"
        ) from None
    if lock is None:
        raise LockError(
            f"{path} is a lock of version {version}; this program reads version {VERSION}",
            hint="use the reprobuild that wrote it, or make the lock again with `reprobuild lock DIR`",
        )
    return lock


def write_lock(lock: Lock, path: Path) -> None:
    """Write the canonical form, whole or not at all."""
    write_file(path, encode(lock))
