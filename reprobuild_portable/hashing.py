"""The sha256 of a file."""

from __future__ import annotations

import hashlib
from typing import Any

from reprobuild_portable.unbundle.format import CHUNK


def hash_file(path: str) -> str:
    """Return the sha256 (hex) of a file."""
    with open(path, "rb") as stream:
        return _hash_stream(stream)


def _hash_stream(stream: Any) -> str:
    digest = hashlib.sha256()
    while True:
        piece = stream.read(CHUNK)
        if not piece:
            return digest.hexdigest()
        digest.update(piece)
