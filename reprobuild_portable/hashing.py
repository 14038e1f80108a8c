"""The sha256 of files and streams."""

from __future__ import annotations

import errno
import hashlib
import os
from typing import Optional, Protocol, Union

_CHUNK = 1 << 20
LARGEST_HOLE = 64 << 30  # bytes
LARGEST_OWN_HOLE = 256 << 20  # in a file that reprobuild made: it has no holes
_DENSEST = 16  # a file system may compress a file to such a part


class _Readable(Protocol):
    def read(self, size: int) -> bytes: ...


def hash_file(path: Union[str, "os.PathLike[str]"], most: int = LARGEST_HOLE) -> str:
    """Return the sha256 (hex) of a file.

    Raises:
        OSError: it cannot be read, or is a hole of `most` bytes.
    """
    with open(path, "rb") as stream:
        return hash_stream(stream, most)


def is_huge_hole(facts: os.stat_result, most: int = LARGEST_HOLE) -> bool:
    """Return whether a file is large and the disk holds a small part of it: to read its holes can take days.

    Args:
        facts: of the file.
        most: bytes that a file of holes may have.
    """
    on_disk: int = getattr(facts, "st_blocks", facts.st_size) * 512  # Windows states no blocks
    return facts.st_size >= most and facts.st_size > _DENSEST * on_disk


def _find_facts(stream: object) -> Optional[os.stat_result]:
    """Return the facts of a file; None of a stream in memory, or of a part of a file."""
    find_number = getattr(stream, "fileno", None)
    try:
        return os.fstat(find_number()) if find_number else None
    except (AttributeError, OSError):  # a buffer around a part of a file has the method, and no number
        return None


def hash_stream(stream: _Readable, most: int = LARGEST_HOLE) -> str:
    """Return the sha256 (hex) of the rest of a stream.

    Raises:
        OSError: it cannot be read, or is a file that is a hole of `most` bytes.
    """
    facts = _find_facts(stream)
    if facts is not None and is_huge_hole(facts, most):
        place = getattr(stream, "name", None)
        raise OSError(errno.EFBIG, "it is a hole", *([place] if isinstance(place, str) else []))
    digest = hashlib.sha256()
    while True:
        piece = stream.read(_CHUNK)
        if not piece:
            return digest.hexdigest()
        digest.update(piece)
