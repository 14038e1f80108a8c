"""File locks between processes, and the name of this machine.

The kernel holds `flock`, and releases it when its process ends in any way. On NFS it reaches other machines
only with a lock daemon; with the mount option `nolock` it silently reaches none. So an unfinished file has
the machine's name, too, and if a lock is refused, no unfinished file is shared.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
from collections.abc import Iterator
from pathlib import Path

from reprobuild.infra.cancel import CancelToken
from reprobuild_portable.host import fcntl, host

_POLL = 0.1


@functools.cache
def machine_name() -> str:
    """Return a short name of this machine, for file names.

    Other machines have other names.
    """
    parts = [platform.node()]
    with contextlib.suppress(OSError):  # absent in small containers
        parts.append(Path("/etc/machine-id").read_text("utf-8"))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


@contextlib.contextmanager
def hold_file_lock(path: Path, halt: CancelToken) -> Iterator[bool]:
    """Take an exclusive lock on `path`; yield False without locks.

    It waits for other processes, and yields True; it yields False if the file system cannot lock.

    Args:
        path: the file of the lock. It is removed at the end, and waiting processes notice that.
        halt: cancels the wait.

    Raises:
        CancelledError: the wait was cancelled.
        OSError: the file cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    number = _open_locked(path, halt)
    try:
        yield number is not None
    finally:
        if number is not None:
            path.unlink(missing_ok=True)
            host.close(number)


def _open_locked(path: Path, halt: CancelToken) -> int | None:
    while True:
        number = host.open(path, host.O_RDWR | host.O_CREAT | host.O_NOFOLLOW, 0o666)
        try:
            is_locked = _wait_for_lock(number, halt)
        except BaseException:
            host.close(number)
            raise
        if not is_locked:
            host.close(number)
            path.unlink(missing_ok=True)
            return None
        try:
            if os.path.samestat(host.fstat(number), path.stat()):
                return number
        except FileNotFoundError:
            pass
        host.close(number)  # removed while this process waited: the others use a new one


def _wait_for_lock(number: int, halt: CancelToken) -> bool:
    """Lock an open file once it is free.

    Return whether that was possible.
    """
    while True:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            halt.sleep(_POLL)  # flock itself would wait as long as the other process lives
        except OSError:
            return False
        else:
            return True


def try_lock(number: int, kind: int) -> bool:
    """Lock an open file, and return whether that was possible.

    The kind is `fcntl.LOCK_SH` or another one; some file systems have no locks.
    """
    try:
        fcntl.flock(number, kind)
    except OSError:
        return False
    return True
