"""The sha256 of files and streams."""

from __future__ import annotations

import hashlib
import os
from typing import Protocol, Union

_CHUNK = 1 << 20


class _Readable(Protocol):
    def read(self, size: int) -> bytes: ...


def hash_file(path: Union[str, "os.PathLike[str]"]) -> str:
    """Return the sha256 (hex) of a file."""
    with open(path, "rb") as stream:
        return hash_stream(stream)


def hash_stream(stream: _Readable) -> str:
    """Return the sha256 (hex) of the rest of a stream."""
    digest = hashlib.sha256()
    while True:
        piece = stream.read(_CHUNK)
        if not piece:
            return digest.hexdigest()
        digest.update(piece)
