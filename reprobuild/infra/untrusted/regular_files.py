"""Untrusted paths of files, opened without blocking.

The path may be a pipe, a device, a link to another place, or anything else.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import IO

from reprobuild_portable.host import host

_PIECE = 1 << 20
_READ = host.O_RDONLY | host.O_NONBLOCK | host.O_CLOEXEC


def open_plain(path: Path | str, *, links: bool, place: int | None = None) -> tuple[IO[bytes], int]:
    """Return an open regular file, and its size.

    Args:
        path: its path.
        links: whether it may be reached by a link.
        place: an open directory that the path begins in; None for the current one.

    Raises:
        OSError: it cannot be read, or is not a regular file.
    """
    try:
        number = host.open(path, _READ if links else _READ | host.O_NOFOLLOW, dir_fd=place)
    except ValueError:
        raise _invalid_path_error() from None
    return _open_regular(number)


def open_within(top: Path, path: str) -> tuple[IO[bytes], int]:
    """Return an open regular file below a directory.

    Its size is returned, too. No step from the directory to it may be a link.

    Args:
        top: the directory, which links may reach.
        path: relative.

    Raises:
        OSError: as `open_plain` does; or the path is not below the directory.
    """
    *above, last = steps = path.split("/")
    if not {"", ".", ".."}.isdisjoint(steps) or "\0" in path:
        raise _invalid_path_error()
    number = host.open(top, _READ | host.O_DIRECTORY)
    try:
        for step in above:
            lower = host.open(step, _READ | host.O_DIRECTORY | host.O_NOFOLLOW, dir_fd=number)
            host.close(number)
            number = lower
        return _open_regular(host.open(last, _READ | host.O_NOFOLLOW, dir_fd=number))
    finally:
        host.close(number)


def _invalid_path_error() -> OSError:
    return OSError(errno.EINVAL, "this is no path")


def _open_regular(number: int) -> tuple[IO[bytes], int]:
    """Return the regular file of a descriptor, and its size.

    A descriptor of anything else is closed.
    """
    facts = host.fstat(number)
    if stat.S_ISREG(facts.st_mode):
        return os.fdopen(number, "rb"), facts.st_size
    host.close(number)
    if stat.S_ISDIR(facts.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    raise OSError(errno.EINVAL, "it is no plain file")


def read_plain(path: Path, largest: int, *, links: bool = True) -> bytes:
    """Return the content of a regular file.

    Args:
        path: its path; endless files (a device, a pipe) are not read.
        largest: the maximum number of bytes.
        links: whether it may be reached by a link.

    Raises:
        OSError: it cannot be read, is not a regular file, or has more bytes.
    """
    stream, size = open_plain(path, links=links)
    with stream:
        data = stream.read(min(size, largest) + 1) or b""  # None: a file of /proc that waits for more
        while len(data) > size and len(data) <= largest and (more := stream.read(_PIECE)):
            data += more  # it grew, or is a file of /proc without a size
    if len(data) > largest:
        bound = f"{largest >> 20} MB" if largest >= 1 << 20 else f"{largest} bytes"
        raise OSError(errno.EFBIG, f"it has more than {bound}")
    return data


def has_content(path: Path, content: bytes) -> bool:
    """Return whether a regular file has this content.

    A file of another size is not read, and no link is followed.
    """
    try:
        stream, size = open_plain(path, links=False)
    except OSError:
        return False
    with stream:
        return size == len(content) and stream.read(size) == content


def is_unlinked(top: Path, path: str) -> bool:
    """Return whether a path below a directory has no links.

    Its last step counts, too; a missing file is not a link. The answer is valid as long as no other process
    writes there: call it after the end of the sandbox.

    Args:
        top: a directory that untrusted programs could write to, but not replace.
        path: relative; one with `..`, or with an empty step, is never right.
    """
    place = top
    for step in path.split("/") if path else ():
        place = place / step
        if step in ("", ".", "..") or place.is_symlink():
            return False
    return True


def resolve_below(top: Path, path: str) -> Path | None:
    """Return a path after following links, or None.

    None means that it is not below the directory. A missing file has a path, too. Args: see `is_unlinked`.
    """
    if path.startswith("/") or ".." in path.split("/"):
        return None
    real = top.resolve()
    try:
        place = (real / path).resolve()
    except (OSError, RuntimeError):  # links that lead to each other; a name that is too long
        return None
    return place if place.is_relative_to(real) else None
