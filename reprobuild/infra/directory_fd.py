"""Walks, removal and new entries of directories by descriptor, safe against links.

Others could write to these directories. Between the check of a path and its use, another process can put a
link there. So each directory is opened from its parent, without following a link (openat(2)), and permissions
are changed through descriptors.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from reprobuild_portable.host import host

_DIRECTORY = host.O_RDONLY | host.O_DIRECTORY | host.O_NOFOLLOW | host.O_CLOEXEC
_NEW = host.O_WRONLY | host.O_CREAT | host.O_EXCL | host.O_NOFOLLOW | host.O_CLOEXEC
_APPEND = host.O_WRONLY | host.O_CREAT | host.O_APPEND | host.O_NOFOLLOW | host.O_NONBLOCK | host.O_CLOEXEC
DEEPEST = 100  # each level holds a descriptor, and processes may have 1024


def make_directory(name: str, above: int, mode: int = 0o777) -> int:
    """Make a directory in an open one, and return its descriptor.

    Raises:
        OSError: it cannot be made, or another user exchanged it for a link meanwhile.
    """
    host.mkdir(name, mode, dir_fd=above)
    return host.open(name, _DIRECTORY, dir_fd=above)


@contextlib.contextmanager
def open_new_directory(path: Path) -> Iterator[int]:
    """Make a directory, and yield its descriptor; missing directories above it are made.

    Another user may write to the directory above it, and exchange the new one.

    Raises:
        OSError: as `make_directory` does.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    above = host.open(path.parent, host.O_RDONLY | host.O_DIRECTORY | host.O_CLOEXEC)
    try:
        number = make_directory(path.name, above)
    finally:
        host.close(above)
    try:
        yield number
    finally:
        host.close(number)


def open_new_file(name: str, above: int) -> IO[bytes]:
    """Open a new file in an open directory for writing.

    Raises:
        FileExistsError: a file or a link has the name.
    """
    return os.fdopen(host.open(name, _NEW, 0o666, dir_fd=above), "wb")


def replace_file(path: Path) -> IO[bytes]:
    """Open a new file for writing; a former file or link of that name is removed.

    Raises:
        OSError: it cannot be made.
    """
    with contextlib.suppress(FileNotFoundError):
        host.unlink(path)
    return os.fdopen(host.open(path, _NEW, 0o666), "wb")


def append_to_file(path: Path) -> IO[bytes]:
    """Open a file for writing at its end; a missing one is made.

    Raises:
        OSError: it is a link, or cannot be written.
    """
    return os.fdopen(host.open(path, _APPEND, 0o666), "ab")


def remove(path: Path) -> None:
    """Remove a file or directory, even without permissions on it.

    Raises:
        OSError: a part of it cannot be removed; the rest is gone.
    """
    with contextlib.suppress(FileNotFoundError):
        above = host.open(path.parent, host.O_RDONLY | host.O_DIRECTORY | host.O_CLOEXEC)
        try:
            if stat.S_ISDIR(host.stat(path.name, dir_fd=above, follow_symlinks=False).st_mode):
                _remove_directory(above, path.name, 0, None)
            else:
                host.unlink(path.name, dir_fd=above)
        finally:
            host.close(above)


def remove_opened(number: int, name: str, above: int) -> None:
    """Remove an open file or directory of the user's from another open directory.

    Another user may have exchanged the name: then its new file or directory stays, unless it is empty.

    Raises:
        OSError: a part of it cannot be removed; the rest is gone.
    """
    facts = host.fstat(number)
    if stat.S_ISDIR(facts.st_mode):
        _permit(number)
        _empty_directory(number, 0, None)
        host.rmdir(name, dir_fd=above)
    elif os.path.samestat(host.stat(name, dir_fd=above, follow_symlinks=False), facts):
        host.unlink(name, dir_fd=above)


def files_below(folder: Path) -> Iterator[tuple[str, int, int]]:
    """Yield each regular file below a directory.

    Each has a relative path, the descriptor of its directory, and its own. The caller's own files and
    directories on the way get all permissions for the owner. No link is followed.

    Raises:
        OSError: there is no such directory, or its directories are nested too deep.
    """
    number = host.open(folder, _DIRECTORY)
    try:
        yield from _files_below(number, "", 0)
    finally:
        host.close(number)


def _files_below(number: int, above: str, depth: int) -> Iterator[tuple[str, int, int]]:
    with host.scandir(number) as entries:
        children = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_directory in children:
        file = None if is_directory else _open_file(number, name)
        if file is not None:
            try:
                yield above + name, number, file
            finally:
                host.close(file)
    for name in (name for name, is_directory in children if is_directory):
        if depth == DEEPEST:
            raise OSError(errno.ELOOP, f"more than {DEEPEST} directories stand in each other", above[:100])
        with contextlib.ExitStack() as stack:
            try:
                lower = stack.enter_context(open_directory(number, name))
            except OSError:
                continue  # closed to the caller, or gone
            yield from _files_below(lower, f"{above}{name}/", depth + 1)


def _open_file(above: int, name: str) -> int | None:
    """Return the descriptor of a regular file, else None.

    A pipe is not waited for.
    """
    if not hasattr(host, "O_PATH"):  # macOS, Windows
        return _open_plain_file(above, name)
    place = host.open(name, host.O_PATH | host.O_NOFOLLOW | host.O_CLOEXEC, dir_fd=above)
    try:
        facts = host.fstat(place)
        if not stat.S_ISREG(facts.st_mode):
            return None
        if facts.st_uid == host.geteuid():
            Path(f"/proc/self/fd/{place}").chmod(0o600)
        return host.open(f"/proc/self/fd/{place}", host.O_RDONLY | host.O_CLOEXEC)
    finally:
        host.close(place)


def _open_plain_file(above: int, name: str) -> int | None:
    """Do the work of `_open_file` on a system without O_PATH.

    A file without read permission is an error there.
    """
    number = host.open(name, host.O_RDONLY | host.O_NOFOLLOW | host.O_NONBLOCK | host.O_CLOEXEC, dir_fd=above)
    if stat.S_ISREG(host.fstat(number).st_mode):
        return number
    host.close(number)
    return None


@contextlib.contextmanager
def open_directory(above: int, name: str) -> Iterator[int]:
    """Yield the descriptor of a directory in an open one.

    If it is the caller's own, it gets all permissions for the owner.

    Raises:
        OSError: it is a link, not a directory, or closed to the caller.
    """
    number = _open(above, name)
    try:
        _permit(number)
        yield number
    finally:
        host.close(number)


def _permit(number: int) -> None:
    """Give the owner all permissions on an open directory of the caller."""
    facts = host.fstat(number)
    if facts.st_uid == host.geteuid() and facts.st_mode & stat.S_IRWXU != stat.S_IRWXU:
        host.fchmod(number, stat.S_IRWXU)


def _open(above: int, name: str) -> int:
    try:
        return host.open(name, _DIRECTORY, dir_fd=above)
    except PermissionError:
        if not hasattr(host, "O_PATH"):  # macOS, Windows
            raise
        place = host.open(name, host.O_PATH | _DIRECTORY, dir_fd=above)
    try:
        if host.fstat(place).st_uid == host.geteuid():
            Path(f"/proc/self/fd/{place}").chmod(stat.S_IRWXU)  # fchmod(2) takes no descriptor of O_PATH
        return host.open(".", _DIRECTORY, dir_fd=place)
    finally:
        host.close(place)


def _remove_directory(above: int, name: str, depth: int, top: int | None) -> None:
    with open_directory(above, name) as number:
        _empty_directory(number, depth, top)
    host.rmdir(name, dir_fd=above)


def _empty_directory(number: int, depth: int, top: int | None) -> None:
    _remove_contents(number, depth, number if top is None else top)
    while depth == 0 and _has_entries(number):  # directories moved up from too deep a level
        _remove_contents(number, depth, number)


def _has_entries(number: int) -> bool:
    with host.scandir(number) as entries:
        return next(entries, None) is not None


def _remove_contents(number: int, depth: int, top: int) -> None:
    """Remove the contents of an open directory.

    A directory at too deep a level is moved to the top, to be removed in a later round.
    """
    failed: OSError | None = None
    with host.scandir(number) as entries:
        children = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_directory in children:
        try:
            if not is_directory:
                host.unlink(name, dir_fd=number)
            elif depth < DEEPEST:
                _remove_directory(number, name, depth + 1, top)
            else:
                with open_directory(number, name):  # else it could not be moved
                    pass
                host.rename(name, secrets.token_hex(16), src_dir_fd=number, dst_dir_fd=top)
        except FileNotFoundError:
            pass
        except OSError as err:
            failed = err
    if failed is not None:
        raise failed
