"""The sha256 of files and streams."""

from __future__ import annotations

import errno
import hashlib
import io
import os
from typing import Protocol, Union

_CHUNK = 1 << 20
_HUGE = 64 << 30  # bytes
_DENSEST = 16  # a file system may compress a file to such a part


class _Readable(Protocol):
    def read(self, size: int) -> bytes: ...


def hash_file(path: Union[str, "os.PathLike[str]"]) -> str:
    """Return the sha256 (hex) of a file.

    Raises:
        OSError: it cannot be read, or is a huge hole.
    """
    with open(path, "rb") as stream:
        return hash_stream(stream)


def is_huge_hole(facts: os.stat_result) -> bool:
    """Return whether a file is large and the disk holds a small part of it: to read its holes can take days."""
    on_disk: int = getattr(facts, "st_blocks", facts.st_size) * 512  # Windows states no blocks
    return facts.st_size > _HUGE and facts.st_size > _DENSEST * on_disk


def hash_stream(stream: _Readable) -> str:
    """Return the sha256 (hex) of the rest of a stream.

    Raises:
        OSError: it cannot be read, or is a file that is a huge hole.
    """
    if isinstance(stream, (io.BufferedReader, io.FileIO)) and is_huge_hole(os.fstat(stream.fileno())):
        place = [stream.name] if isinstance(stream.name, (str, bytes)) else []  # a descriptor has no path
        raise OSError(errno.EFBIG, "it is a hole", *place)
    digest = hashlib.sha256()
    while True:
        piece = stream.read(_CHUNK)
        if not piece:
            return digest.hexdigest()
        digest.update(piece)
