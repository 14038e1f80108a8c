"""Signatures of a store's remembered results.

Users who can read the key of the store are trusted, and no other writer.

A blob is named by its hash and needs no signature. A remembered result maps inputs to a blob, and only its author can
know that. Without a valid signature it counts as missing, and is made again.

The key is the file `key` in the store, mode 0600, or 0640 if a group shares the store (see `share`). It is trusted only
if the user made or joined it (see `keyring`), and if it belongs to the owner of the store and is closed to all others:
a store that is handed over has its own key, and a user with write access to the directory can put another file there.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path

from reprobuild.infra.flock import try_lock
from reprobuild.infra.untrusted.regular_files import open_plain
from reprobuild.store.keyring import StoreKeyring
from reprobuild_portable.host import fcntl, host

NAME = "key"
_SIZE = 32
_DIGITS = 64


def stored_key(root: Path) -> bytes | None:
    """Return the key in a store.

    Return None if users other than its owner may have put it there.
    """
    with contextlib.suppress(OSError), open_plain(root / NAME, links=False)[0] as stream:
        facts = host.fstat(stream.fileno())
        if facts.st_uid == root.stat().st_uid and not facts.st_mode & (stat.S_IWGRP | stat.S_IRWXO):
            key = stream.read(_SIZE + 1)
            return key if len(key) == _SIZE else None
    return None


def read_key(root: Path, known: StoreKeyring) -> bytes | None:
    """Return a store's key if the user trusts it, or None."""
    key = stored_key(root)
    return key if key is not None and known.has(key) else None


def is_private(root: Path) -> bool:
    """Return whether a store and its key belong to the user alone.

    The key must be closed to all others.
    """
    try:
        key = host.lstat(root / NAME)
        return root.stat().st_uid == key.st_uid == host.geteuid() and not key.st_mode & 0o077
    except OSError:
        return False


def make_key(root: Path, known: StoreKeyring, *, renew: bool = False) -> bytes | None:
    """Return the key of a store, made if missing.

    Return None if the user does not trust it.

    An unknown key in a store of the user alone is replaced: the store may be a copy from another machine. The key of a
    store that a group shares stays, because the group trusts it.

    Args:
        root: the directory of the store, which exists.
        known: has the keys that the user trusts.
        renew: replace an unknown key in each store that the user owns.
    """
    try:
        number = host.open(root, host.O_RDONLY | host.O_DIRECTORY | host.O_CLOEXEC)
    except OSError:
        return None
    try:
        try_lock(number, fcntl.LOCK_EX)
        key = stored_key(root)
        owns = host.fstat(number).st_uid == host.geteuid()
        strange = key is not None and not known.has(key)
        if owns and (key is None or (strange and (renew or is_private(root)))):
            _renew(root, known, key)
    finally:
        host.close(number)
    return read_key(root, known)


def _renew(root: Path, known: StoreKeyring, strange: bytes | None) -> None:
    """Give a store a fresh key, if it can be recorded and kept."""
    fresh = secrets.token_bytes(_SIZE)
    part = root / f"{NAME}.{secrets.token_hex(8)}"
    if not known.add(fresh):
        return
    with contextlib.suppress(OSError):
        number = host.open(part, host.O_WRONLY | host.O_CREAT | host.O_EXCL | host.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(number, "wb") as stream:
                stream.write(fresh)
            _name_key(part, root, strange)
        finally:
            part.unlink(missing_ok=True)


def _name_key(part: Path, root: Path, strange: bytes | None) -> None:
    """Give the new key its name.

    Without locks, two processes may each make a key, and the first one wins.
    """
    try:
        (root / NAME).hardlink_to(part)
    except FileExistsError:
        if stored_key(root) == strange:
            part.replace(root / NAME)


def sign(key: bytes, name: str, content: bytes) -> bytes:
    """Return the content with its signature as its first line.

    The signature is valid for this name alone.
    """
    return _mac(key, name, content) + b"\n" + content


def verify(key: bytes, name: str, data: bytes) -> bytes | None:
    """Return the signed content, or None if the signature differs."""
    content = strip_signature(data)
    return content if hmac.compare_digest(_mac(key, name, content), data[:_DIGITS]) else None


def strip_signature(data: bytes) -> bytes:
    """Return the content of signed data without a check."""
    return data[_DIGITS + 1 :]


def _mac(key: bytes, name: str, content: bytes) -> bytes:
    return hmac.digest(key, name.encode() + b"\0" + content, hashlib.sha256).hex().encode()
