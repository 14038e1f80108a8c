"""Signatures of what a store remembers: who can read the key of the store is trusted, and no other writer.

A blob is named by its hash and needs no signature. A remembered result says which blob came out of which inputs, and
nothing but its author can tell. Without a valid signature it counts as not there, and is made again.

The key is the file `key` in the store, mode 0600, or 0640 where a group shares the store (see `share`). It is believed
only where the user made or joined it (see `keyring`), and where it belongs to the owner of the store and is closed to
all others: a store that is handed over brings its own key, and somebody who can write to the directory can put
another file there.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path

from reprobuild.infra.flock import lock
from reprobuild.infra.untrusted.regular_files import open_plain
from reprobuild.store.keyring import StoreKeyring

NAME = "key"
_SIZE = 32
_DIGITS = 64


def stored_key(root: Path) -> bytes | None:
    """Return the key that lies in a store, or None where other users than its owner may have put it there."""
    with contextlib.suppress(OSError), open_plain(root / NAME, links=False)[0] as stream:
        facts = os.fstat(stream.fileno())
        if facts.st_uid == root.stat().st_uid and not facts.st_mode & (stat.S_IWGRP | stat.S_IRWXO):
            key = stream.read(_SIZE + 1)
            return key if len(key) == _SIZE else None
    return None


def read_key(root: Path, known: StoreKeyring) -> bytes | None:
    """Return the key of a store, or None where there is none that the user believes."""
    key = stored_key(root)
    return key if key is not None and known.has(key) else None


def is_private(root: Path) -> bool:
    """Tell whether a store and its key are the user's, and the key is closed to all others."""
    try:
        key = (root / NAME).lstat()
        return root.stat().st_uid == key.st_uid == os.geteuid() and not key.st_mode & 0o077
    except OSError:
        return False


def make_key(root: Path, known: StoreKeyring, *, renew: bool = False) -> bytes | None:
    """Return the key of a store, made where there is none, or None where the user believes none.

    A strange key in a store of the user alone gives way: the store may be a copy from another machine. One that a group
    shares stays, because its members believe it.

    Args:
        root: the directory of the store, which is there.
        known: has the keys that the user believes.
        renew: a strange key gives way in each store that the user owns.
    """
    try:
        number = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        lock(number, fcntl.LOCK_EX)
        key = stored_key(root)
        owns = os.fstat(number).st_uid == os.geteuid()
        strange = key is not None and not known.has(key)
        if owns and (key is None or (strange and (renew or is_private(root)))):
            _renew(root, known, key)
    finally:
        os.close(number)
    return read_key(root, known)


def _renew(root: Path, known: StoreKeyring, strange: bytes | None) -> None:
    """Give a store a fresh key, where it can be recorded and kept."""
    fresh = secrets.token_bytes(_SIZE)
    part = root / f"{NAME}.{secrets.token_hex(8)}"
    if not known.add(fresh):
        return
    with contextlib.suppress(OSError):
        number = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(number, "wb") as stream:
                stream.write(fresh)
            _place(part, root, strange)
        finally:
            part.unlink(missing_ok=True)


def _place(part: Path, root: Path, strange: bytes | None) -> None:
    """Give the new key its name; of two processes that make one where there are no locks, the first wins."""
    try:
        (root / NAME).hardlink_to(part)
    except FileExistsError:
        if stored_key(root) == strange:
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
