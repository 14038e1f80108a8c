"""Atomic writes of files and directories, with clean-up.

An unfinished file is in a private directory beside its final path, and its process holds a file lock on that
directory. A process that makes such a directory removes those without a lock: their processes were killed.
"""

from __future__ import annotations

import contextlib
import errno
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

from reprobuild.infra.directory_fd import make_directory, open_new_file, remove_opened
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


class PrivateDirectory(NamedTuple):
    """A new directory of this process.

    Another user may write to its parent, and exchange it. So its files are written and moved by descriptors.
    """

    path: Path
    number: int  # the descriptor
    above: int  # the descriptor of its parent

    @contextlib.contextmanager
    def open_new(self, name: str) -> Iterator[IO[bytes]]:
        """Open a new file in it for writing.

        Raises:
            OSError: it exists, or cannot be written; the error names the path.
        """
        with _complete_error_paths(self.path):
            file = open_new_file(name, self.number)
        with add_path_to_errors(self.path / name), file:
            yield file

    def write(self, name: str, content: bytes) -> None:
        """Write a new file in it.

        Raises:
            OSError: as `open_new` does.
        """
        with self.open_new(name) as stream:
            stream.write(content)

    def move(self, name: str, target: str, folder: int) -> None:
        """Move a file of it into an open directory, and replace a former one.

        Raises:
            OSError: it cannot be moved; the error names the path.
        """
        with _complete_error_paths(self.path):
            host.replace(name, target, src_dir_fd=self.number, dst_dir_fd=folder)


@contextlib.contextmanager
def _complete_error_paths(folder: Path) -> Iterator[None]:
    """Name the path in each `OSError` that names a file of an open directory, or none."""
    try:
        yield
    except OSError as err:
        if err.errno is not None:
            name = err.filename if isinstance(err.filename, str) else ""  # else it is a descriptor
            err.filename = str(folder / name)
        raise


def write_file(path: Path, content: bytes) -> None:
    """Write a file atomically.

    Readers find the former content or the new one. No link is followed, also if another user may write to the
    directory.

    Raises:
        OSError: it cannot be written; it names the file.
    """
    with open_private_directory(path.parent, f"{PREFIX}{path.name}.") as folder:
        folder.write("new", content)
        folder.move("new", path.name, folder.above)


@contextlib.contextmanager
def private_directory(parent: Path, prefix: str = PREFIX) -> Iterator[Path]:
    """Yield the path of an empty private directory, and remove it afterwards.

    If others may write to `parent`, use `open_private_directory`, which has the same arguments and errors.
    """
    with open_private_directory(parent, prefix) as folder:
        yield folder.path


@contextlib.contextmanager
def open_private_directory(parent: Path, prefix: str = PREFIX) -> Iterator[PrivateDirectory]:
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
        above = host.open(parent, host.O_RDONLY | host.O_DIRECTORY)
    try:
        with _complete_error_paths(parent):
            folder, dead = _make_locked(parent, prefix, above)
        try:
            for number, name in dead:
                with contextlib.suppress(OSError):  # of another user
                    remove_opened(number, name, above)
                host.close(number)
            with add_path_to_errors(parent):
                yield folder
        finally:
            with contextlib.suppress(OSError):  # the error of the block is the one to report
                remove_opened(folder.number, folder.path.name, above)
            host.close(folder.number)
    finally:
        host.close(above)


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


def _make_locked(parent: Path, prefix: str, above: int) -> tuple[PrivateDirectory, list[tuple[int, str]]]:
    """Return a new locked directory, and the abandoned ones with their descriptors.

    The lock is held by a descriptor. While the parent is locked, every directory in it is locked since its
    creation.
    """
    alone = _lock_directory(above)
    try:
        name = f"{prefix}{secrets.token_hex(8)}"
        number = make_directory(name, above, 0o700)
        try:
            if not _is_own(number):
                raise PermissionError(errno.EPERM, "another user exchanged a directory in it")
            folder = PrivateDirectory(parent.absolute() / name, number, above)
            # Some network file systems have no file locks.
            is_locked = try_lock(number, fcntl.LOCK_EX) and alone
            names = host.listdir(above) if is_locked else []
        except BaseException:
            host.close(number)
            raise
        others = [other for other in names if other.startswith(prefix) and other != name]
        return folder, [
            (file, other) for other in others if (file := _lock_abandoned(other, above)) is not None
        ]
    finally:
        if alone:
            fcntl.flock(above, fcntl.LOCK_UN)


def _is_own(number: int) -> bool:
    """Return whether an open directory belongs to this process.

    Some network file systems state another owner for all files of a user.
    """
    owner = host.fstat(number).st_uid
    if owner == host.geteuid():
        return True
    with open_new_file("owner", number) as file:
        is_own = host.fstat(file.fileno()).st_uid == owner
    host.unlink("owner", dir_fd=number)
    return bool(is_own)


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


def _lock_abandoned(name: str, above: int) -> int | None:
    """Return the descriptor of an abandoned path of the caller, locked, or None.

    A pipe of that name is not waited for.
    """
    try:
        number = host.open(name, host.O_RDONLY | host.O_NOFOLLOW | host.O_NONBLOCK, dir_fd=above)
    except OSError:  # removed meanwhile, or not ours
        return None
    if host.fstat(number).st_uid == host.geteuid() and try_lock(number, fcntl.LOCK_EX | fcntl.LOCK_NB):
        return number
    host.close(number)
    return None
