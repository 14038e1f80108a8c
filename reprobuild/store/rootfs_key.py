"""Name the memory of the store about an unpacked base tree."""

from __future__ import annotations

import hashlib


def root_key(base: str) -> str:
    """Return the key under which the store remembers the state of a base's folder."""
    return hashlib.sha256(f"root\0{base}".encode()).hexdigest()
