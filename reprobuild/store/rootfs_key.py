"""The key of an unpacked base tree in the store's memory."""

from __future__ import annotations

import hashlib


def root_key(base: str) -> str:
    """Return the store's key for the state of a base's directory."""
    return hashlib.sha256(f"root\0{base}".encode()).hexdigest()
