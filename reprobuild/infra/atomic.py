"""Atomic writes of files and directories, with clean-up.

An unfinished file is in a private directory beside its final path, and its process holds a file lock on that
directory. A process that makes such a directory removes those without a lock: their processes were killed.
"""

from __future__ import annotations

import contextlib
import errno
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from reprobuild.infra.directory_fd import remove
from reprobuild.infra.flock import try_lock
from reprobuild_portable.host import fcntl, host

# No space, or no write permission: the user can solve it, and the next run continues.
FULL = (errno.ENOSPC, errno.EDQUOT)
PREFIX = ".reprobuild-"
PATIENCE = 5.0  # seconds; our processes hold the file lock for milliseconds
_POLL = 0.01


@contextlib.contextmanager
def add_path_to_errors(place: Path) -> Iterator[None]:
    """Name a path in each `OSError` that names no file.

    An error of writing to a full disk names none.
    """
    try:
        yield
    except OSError as err:
        if err.filename is None and err.errno is not None:
            err.filename = str(place)
        raise


def write_file(path: Path, content: bytes) -> None:
    """Write a file atomically.

    Readers find the former content or the new one.

    Raises:
        OSError: it cannot be written; it names the file.
    """
    with private_directory(path.parent, f"{PREFIX}{path.name}.") as folder:
        part = folder / "new"
        part.write_bytes(content)
        part.replace(path)


@contextlib.contextmanager
def private_directory(parent: Path, prefix: str = PREFIX) -> Iterator[Path]:
    """Yield an empty private directory, and remove it afterwards.

    Directories of killed processes whose names begin with `prefix` are removed first.

    Args:
        parent: made if it is missing.
        prefix: of the names; no other name in `parent` may begin with it.

    Raises:
        OSError: there is no space, or no permission to write; it names a file.
    """
    with add_path_to_errors(parent):
        parent.mkdir(parents=True, exist_ok=True)
        folder, holder, dead = _make_locked(parent, prefix)
    try:
        for number, leftover in dead:
            with contextlib.suppress(OSError):  # of another user
                remove(leftover)
            host.close(number)
        with add_path_to_errors(parent):
            yield folder
    finally:
        with contextlib.suppress(OSError):  # the error of the block is the one to report
            remove(folder)
        host.close(holder)


@contextlib.contextmanager
def atomic_directory(target: Path) -> Iterator[Path]:
    """Yield an empty directory that replaces `target` after success.

    Raises:
        OSError: there is no space, or no permission to write; `target` is as before.
    """
    with private_directory(target.parent, f"{PREFIX}{target.name}.") as folder:
        part, old = folder / "new", folder / "old"
        part.mkdir()
        part.chmod(0o755)
        yield part
        if target.exists():
            target.rename(old)
        try:
            part.rename(target)
        except OSError:
            if old.exists():
                old.rename(target)
            raise


def _make_locked(parent: Path, prefix: str) -> tuple[Path, int, list[tuple[int, Path]]]:
    """Return a new locked directory, and the abandoned ones.

    The lock is held by a descriptor. While the parent is locked, every directory in it is locked since its
    creation.
    """
    above = host.open(parent, host.O_RDONLY | host.O_DIRECTORY)
    try:
        alone = _lock_directory(above)
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        holder = host.open(folder, host.O_RDONLY | host.O_DIRECTORY)
        if not (try_lock(holder, fcntl.LOCK_EX) and alone):  # some network file systems have no file locks
            return folder, holder, []
        others = [path for path in parent.iterdir() if path.name.startswith(prefix) and path != folder]
        return folder, holder, [pair for path in others if (pair := _lock_abandoned(path)) is not None]
    finally:
        host.close(above)


def _lock_directory(number: int) -> bool:
    """Lock a directory, and return whether that was possible.

    Every process that may read it can hold its lock forever.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL)
        except OSError:
            return False
        else:
            return True


def _lock_abandoned(path: Path) -> tuple[int, Path] | None:
    """Return an abandoned path of the caller, locked, or None.

    A pipe of that name is not waited for.
    """
    try:
        number = host.open(path, host.O_RDONLY | host.O_NOFOLLOW | host.O_NONBLOCK)
    except OSError:  # removed meanwhile, or not ours
        return None
    if host.fstat(number).st_uid == host.geteuid() and try_lock(number, fcntl.LOCK_EX | fcntl.LOCK_NB):
        return number, path
    host.close(number)
    return None
