"""Access to directories by descriptor, without following links."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from typing import Iterator, Set, Tuple

from reprobuild_portable.hashing import hash_stream
from reprobuild_portable.host import fcntl, host
from reprobuild_portable.unbundle.bundle import Bundle
from reprobuild_portable.unbundle.format import Member, RefusedError

_DIRECTORY = host.O_RDONLY | host.O_DIRECTORY | host.O_NOFOLLOW | host.O_CLOEXEC
_PLAIN = host.O_RDONLY | host.O_NOFOLLOW | host.O_NONBLOCK | host.O_CLOEXEC
# Errors of the kernel for a name that is absent, a link, or below a file; or a pipe or socket.
_NOT_PLAIN = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO)


@contextlib.contextmanager
def _lock_work(work: str) -> Iterator[int]:
    """Lock the directory of unfinished work, and yield its descriptor.

    No other process may use it meanwhile.
    """
    with contextlib.suppress(FileExistsError):
        os.makedirs(work, 0o700)
    number = host.open(work, _DIRECTORY)
    try:
        status = host.fstat(number)
        if status.st_uid != host.geteuid() or status.st_mode & 0o077:
            raise RefusedError(
                "%s was made by somebody else, or is open to others" % work,
                "remove it, or name a directory with -o where nobody else can write",
            )
        with contextlib.suppress(OSError):  # some network file systems have no locks
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RefusedError(
                    "another process unpacks into %s" % work, "run it again when that has ended"
                ) from None
        yield number
    finally:
        host.close(number)


@contextlib.contextmanager
def _tree(bundle: Bundle, work: int) -> Iterator[Tuple[str, int]]:
    """Yield the directory for the files of this bundle.

    It is given by name and as a descriptor. The remains of another bundle are removed.
    """
    name = hashlib.sha256(bundle.manifest).hexdigest()
    for other in host.listdir(work):
        if other != name or not _is_own_folder(work, other):
            _remove(work, other)
    with contextlib.suppress(FileExistsError):
        host.mkdir(name, 0o755, dir_fd=work)
    tree = host.open(name, _DIRECTORY, dir_fd=work)
    try:
        _close(tree)
        yield name, tree
    finally:
        host.close(tree)


def _path_of(work: str, name: str, tree: int) -> str:
    """Return the path of the directory that was filled.

    Raises:
        RefusedError: the path leads to another directory.
    """
    path = os.path.join(work, name)
    if not os.path.samestat(host.lstat(path), host.fstat(tree)):
        raise RefusedError(
            "%s is another directory than before" % path, "name a directory where nobody else can write"
        )
    return path


def _is_own_folder(above: int, name: str) -> bool:
    status = host.stat(name, dir_fd=above, follow_symlinks=False)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == host.geteuid()


def _close(folder: int) -> None:
    """Restrict write access of an earlier directory to its owner."""
    mode = stat.S_IMODE(host.fstat(folder).st_mode)
    if mode & 0o7022 or mode & 0o700 != 0o700:
        host.fchmod(folder, mode & 0o755 | 0o700)


def _remove(above: int, name: str) -> None:
    """Remove a name and its content, without following links.

    The content of a directory first moves up. So no depth takes more descriptors, or more of the stack.
    """
    waiting = [name]
    while waiting:
        name = waiting.pop()
        if not stat.S_ISDIR(host.stat(name, dir_fd=above, follow_symlinks=False).st_mode):
            host.unlink(name, dir_fd=above)
            continue
        folder = host.open(name, _DIRECTORY, dir_fd=above)
        try:
            _close(folder)
            for other in host.listdir(folder):
                waiting.append("removed.%s" % os.urandom(8).hex())
                host.rename(other, waiting[-1], src_dir_fd=folder, dst_dir_fd=above)
        finally:
            host.close(folder)
        host.rmdir(name, dir_fd=above)


def _remove_unfinished(folder: int, above: str, whole_paths: Set[str], folders: Set[str]) -> None:
    """Remove all entries except whole files of the bundle.

    Others may have put them there before they handed over the directory.
    """
    for name in host.listdir(folder):
        path = above + name
        if path in folders and _is_own_folder(folder, name):
            lower = host.open(name, _DIRECTORY, dir_fd=folder)
            try:
                _close(lower)
                _remove_unfinished(lower, path + "/", whole_paths, folders)
            finally:
                host.close(lower)
        elif path not in whole_paths:
            _remove(folder, name)


@contextlib.contextmanager
def _folder_of(top: int, path: str, make: bool = False) -> Iterator[Tuple[int, str]]:
    """Yield the directory of a path, and the last part.

    The path begins at an open directory, and the result is a descriptor. No link is followed.
    """
    *above, last = path.split("/")
    number = host.dup(top)
    try:
        for name in above:
            if make:
                with contextlib.suppress(FileExistsError):
                    host.mkdir(name, dir_fd=number)
            lower = host.open(name, _DIRECTORY, dir_fd=number)
            host.close(number)
            number = lower
        yield number, last
    finally:
        host.close(number)


def _is_whole(top: int, member: Member, strict: bool = False) -> bool:
    """Return whether a plain file has a member's bytes.

    With `strict`, its owner and mode must also be those that `_Part` gives it.
    """
    try:
        with _folder_of(top, member.path) as (folder, name):
            number = host.open(name, _PLAIN, dir_fd=folder)
    except OSError as err:
        if err.errno not in _NOT_PLAIN:
            raise
        return False
    with os.fdopen(number, "rb") as stream:
        status = host.fstat(number)
        if strict and (status.st_uid != host.geteuid() or stat.S_IMODE(status.st_mode) not in (0o444, 0o644)):
            return False
        plain = stat.S_ISREG(status.st_mode) and status.st_size == member.size
        return plain and hash_stream(stream) == member.sha256
