from __future__ import annotations

import hashlib
import struct

import pytest

from reprobuild.realise.java import with_time

KEY = "changeit".encode("utf-16-be") + b"Mighty Aphrodite"


def store(milliseconds: int, *, tag: int = 2, version: int = 2, magic: int = 0xFEEDFEED) -> bytes:
    body = struct.pack(">III", magic, version, 2)
    for alias, certificate in ((b"debian:a.pem", b"AAA"), (b"debian:b.pem", b"BBBBB")):
        body += struct.pack(">IH", tag, len(alias)) + alias + struct.pack(">Q", milliseconds)
        body += struct.pack(">H", 5) + b"X.509" + struct.pack(">I", len(certificate)) + certificate
    return body + hashlib.sha1(KEY + body).digest()


def short(size: int) -> bytes:
    """Return a store with the right digest whose entries end in the middle."""
    body = store(5)[: 12 + size]
    return body + hashlib.sha1(KEY + body).digest()


def test_only_the_times_change_and_the_digest_is_right() -> None:
    assert with_time(store(1795254329571), 1_700_000_000) == store(1_700_000_000_000)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"short",
        store(5)[:-1],
        store(5, tag=1),
        store(5, version=1),
        store(5, magic=1),
        b"-----BEGIN" * 9,
        short(0),
        short(4),
        short(13),
        short(30),
    ],
)
def test_anything_else_comes_back_as_it_was(content: bytes) -> None:
    assert with_time(content, 1) == content
