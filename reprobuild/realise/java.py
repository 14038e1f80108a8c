"""Java's certificate store without the time of its making.

`ca-certificates-java` writes the current time beside every certificate; nothing reads it.
"""

from __future__ import annotations

import hashlib
import struct

PATH = "etc/ssl/certs/java/cacerts"
_MAGIC = 0xFEEDFEED
_CERTIFICATE = 2
# The password that ca-certificates-java uses, and the salt of the format (sun.security.provider.JavaKeyStore).
_KEY = "changeit".encode("utf-16-be") + b"Mighty Aphrodite"


def with_time(content: bytes, epoch: int) -> bytes:
    """Return a JKS store with one time for all its certificates; anything else comes back as it was.

    Args:
        content: the file.
        epoch: seconds since 1970.
    """
    body, digest = bytearray(content[:-20]), content[-20:]
    if len(body) < 12 or hashlib.sha1(_KEY + body).digest() != digest:
        return content
    magic, version, count = struct.unpack_from(">III", body)
    if magic != _MAGIC or version != 2:
        return content
    at = 12
    for _ in range(count):
        tag, alias = struct.unpack_from(">IH", body, at)
        if tag != _CERTIFICATE:
            return content
        at += 6 + alias
        struct.pack_into(">Q", body, at, epoch * 1000)
        (kind,) = struct.unpack_from(">H", body, at + 8)
        (length,) = struct.unpack_from(">I", body, at + 10 + kind)
        at += 14 + kind + length
    return bytes(body) + hashlib.sha1(_KEY + body).digest()
