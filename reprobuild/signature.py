"""Signatures of what a store remembers: who can read the key of the store is trusted, and no other writer.

A blob is named by its hash and needs no signature. A remembered result says which blob came out of which inputs, and
nothing but its author can tell. Without a valid signature it counts as not there, and is made again.

The key is the file `key` in the store, mode 0600, or 0640 where a group shares the store (see `share`). It is believed
only where it belongs to the owner of the store and is closed to all others: somebody who can write to the directory,
and put another file there, cannot give it away to that owner.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path

from reprobuild.guard.plain import open_plain

NAME = "key"
_SIZE = 32
_DIGITS = 64


def read_key(root: Path) -> bytes | None:
    """Return the key of a store, or None where there is none to be believed."""
    with contextlib.suppress(OSError), open_plain(root / NAME, links=False)[0] as stream:
        found = os.fstat(stream.fileno())
        if found.st_uid == root.stat().st_uid and not found.st_mode & (stat.S_IWGRP | stat.S_IRWXO):
            key = stream.read(_SIZE + 1)
            return key if len(key) == _SIZE else None
    return None


def make_key(root: Path) -> bytes:
    """Return the key of a store, made where there is none; one of this process alone where none can be kept."""
    key = read_key(root)
    if key is not None:
        return key
    fresh = secrets.token_bytes(_SIZE)
    part = root / f"{NAME}.{secrets.token_hex(8)}"
    with contextlib.suppress(OSError):
        number = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(number, "wb") as stream:
                stream.write(fresh)
            _place(part, root)
        finally:
            part.unlink(missing_ok=True)
    return read_key(root) or fresh


def _place(part: Path, root: Path) -> None:
    """Give the new key its name; of two processes that make one, the first wins."""
    try:
        (root / NAME).hardlink_to(part)
    except FileExistsError:
        if read_key(root) is None:  # nobody could believe that one
            part.replace(root / NAME)


def sign(key: bytes, name: str, content: bytes) -> bytes:
    """Return the content with its signature as its first line; it holds for this name alone."""
    return _mac(key, name, content) + b"\n" + content


def verify(key: bytes, name: str, data: bytes) -> bytes | None:
    """Return the content of what `sign` returned, or None where this is another."""
    content = unsigned(data)
    return content if hmac.compare_digest(_mac(key, name, content), data[:_DIGITS]) else None


def unsigned(data: bytes) -> bytes:
    """Return the content of what `sign` returned, whoever signed it."""
    return data[_DIGITS + 1 :]


def _mac(key: bytes, name: str, content: bytes) -> bytes:
    return hmac.digest(key, name.encode() + b"\0" + content, hashlib.sha256).hex().encode()
