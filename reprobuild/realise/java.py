"""Java's certificate store without its creation time.

`ca-certificates-java` writes the current time beside every certificate; no program reads it.
"""

from __future__ import annotations

import hashlib
import struct

PATH = "etc/ssl/certs/java/cacerts"
LARGEST = 16 << 20  # Debian's has 150 kB
_MAGIC = 0xFEEDFEED
_CERTIFICATE = 2
# The password that ca-certificates-java uses, and the salt of the format (sun.security.provider.JavaKeyStore).
_KEY = "changeit".encode("utf-16-be") + b"Mighty Aphrodite"


def with_time(content: bytes, epoch: int) -> bytes:
    """Set one time for all certificates of a JKS store.

    Any other content is returned unchanged.

    Args:
        content: the file.
        epoch: seconds since 1970.
    """
    body, digest = bytearray(content[:-20]), content[-20:]
    if len(body) < 12 or hashlib.sha1(_KEY + body, usedforsecurity=False).digest() != digest:
        return content
    magic, version, count = struct.unpack_from(">III", body)
    if magic != _MAGIC or version != 2:
        return content
    try:
        if not _set_times(body, count, epoch):
            return content
    except struct.error:  # a length that points outside of the file: anyone can compute a valid digest for it
        return content
    return bytes(body) + hashlib.sha1(_KEY + body, usedforsecurity=False).digest()


def _set_times(body: bytearray, count: int, epoch: int) -> bool:
    """Set each certificate's time; return whether all entries are certificates."""
    at = 12
    for _ in range(count):
        tag, alias = struct.unpack_from(">IH", body, at)
        if tag != _CERTIFICATE:
            return False
        at += 6 + alias
        struct.pack_into(">Q", body, at, epoch * 1000)
        (kind,) = struct.unpack_from(">H", body, at + 8)
        (length,) = struct.unpack_from(">I", body, at + 10 + kind)
        at += 14 + kind + length
    return True
