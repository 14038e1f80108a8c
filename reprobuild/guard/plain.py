"""Files of others, opened without waiting: what stands there may be a pipe, a device, or anything."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import IO


def open_plain(path: Path, *, links: bool) -> tuple[IO[bytes], int]:
    """Return a plain file, open, and its size.

    Args:
        path: where it stands.
        links: whether a link may lead to it.

    Raises:
        OSError: it cannot be read, or is no plain file.
    """
    way = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if links else os.O_NOFOLLOW)
    try:
        number = os.open(path, way)
    except ValueError:
        raise OSError(errno.EINVAL, "this is no path") from None
    found = os.fstat(number)
    if stat.S_ISREG(found.st_mode):
        return os.fdopen(number, "rb"), found.st_size
    os.close(number)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    raise OSError(errno.EINVAL, "it is no plain file")
