"""Files of others, opened without waiting: what stands there may be a pipe, a device, a link out, or anything."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import IO

_PIECE = 1 << 20
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


def open_plain(path: Path, *, links: bool) -> tuple[IO[bytes], int]:
    """Return a plain file, open, and its size.

    Args:
        path: where it stands.
        links: whether a link may lead to it.

    Raises:
        OSError: it cannot be read, or is no plain file.
    """
    try:
        number = os.open(path, _READ if links else _READ | os.O_NOFOLLOW)
    except ValueError:
        raise _no_path() from None
    return _checked(number)


def open_within(top: Path, path: str) -> tuple[IO[bytes], int]:
    """Return a plain file below a directory, open, and its size; no step from the directory to it may be a link.

    Args:
        top: the directory, to which links may lead.
        path: relative.

    Raises:
        OSError: as `open_plain` does; or the path is none below the directory.
    """
    *above, last = steps = path.split("/")
    if not {"", ".", ".."}.isdisjoint(steps) or "\0" in path:
        raise _no_path()
    number = os.open(top, _READ | os.O_DIRECTORY)
    try:
        for step in above:
            lower = os.open(step, _READ | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=number)
            os.close(number)
            number = lower
        return _checked(os.open(last, _READ | os.O_NOFOLLOW, dir_fd=number))
    finally:
        os.close(number)


def _no_path() -> OSError:
    return OSError(errno.EINVAL, "this is no path")


def _checked(number: int) -> tuple[IO[bytes], int]:
    """Return the plain file of a descriptor, and its size; a descriptor of anything else is closed."""
    found = os.fstat(number)
    if stat.S_ISREG(found.st_mode):
        return os.fdopen(number, "rb"), found.st_size
    os.close(number)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    raise OSError(errno.EINVAL, "it is no plain file")


def read_plain(path: Path, largest: int) -> bytes:
    """Return the content of a plain file, to which links may lead.

    Args:
        path: where it stands; what never ends (a device, a pipe) is not read.
        largest: how many bytes it may have.

    Raises:
        OSError: it cannot be read, is no plain file, or has more bytes.
    """
    stream, size = open_plain(path, links=True)
    with stream:
        data = stream.read(min(size, largest) + 1)
        while len(data) > size and len(data) <= largest and (more := stream.read(_PIECE)):
            data += more  # it grew, or is a file of /proc, which has no size
    if len(data) > largest:
        bound = f"{largest >> 20} MB" if largest >= 1 << 20 else f"{largest} bytes"
        raise OSError(errno.EFBIG, f"it has more than {bound}")
    return data


def holds(path: Path, content: bytes) -> bool:
    """Tell whether a plain file has this content; one of another size is not read, and no link is followed."""
    try:
        stream, size = open_plain(path, links=False)
    except OSError:
        return False
    with stream:
        return size == len(content) and stream.read(size) == content


def is_unlinked(top: Path, path: str) -> bool:
    """Tell whether nothing on the way to a path below a folder is a link, its last step among them.

    What is not there is no link. The answer holds while nobody else writes there: ask when the sandbox has ended.

    Args:
        top: a folder that programs of others could write to, but not replace.
        path: relative; one with `..`, or with an empty step, is never right.
    """
    place = top
    for step in path.split("/") if path else ():
        place = place / step
        if step in ("", ".", "..") or place.is_symlink():
            return False
    return True


def real_place(top: Path, path: str) -> Path | None:
    """Return where a path below a folder leads when its links are followed, None where that is not below the folder.

    What is not there yet has a place, too. Args: see `is_unlinked`.
    """
    if path.startswith("/") or ".." in path.split("/"):
        return None
    real = top.resolve()
    try:
        found = (real / path).resolve()
    except (OSError, RuntimeError):  # links that lead to each other; a name that is too long
        return None
    return found if found.is_relative_to(real) else None
