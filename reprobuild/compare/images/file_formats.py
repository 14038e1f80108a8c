"""File formats with times, an order, or build ids.

It finds differences in these parts if the rest is equal.
"""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from reprobuild.errors import BuildError
from reprobuild.infra.tar.entries import entry_of, with_hash
from reprobuild.infra.tar.reading import members
from reprobuild.infra.untrusted.tars import UNREADABLE

# Maximum decompressed bytes of one file.
LARGEST = 32 << 20
MOST_MEMBERS = 100_000
# A note of the owner "GNU" and the type 3 (NT_GNU_BUILD_ID), of either byte order: elf(5), gabi "Note
# Section".
_BUILD_ID = re.compile(
    rb"(?:\x04\0\0\0([\x08\x10\x14\x20])\0\0\0\x03\0\0\0|\0\0\0\x04\0\0\0([\x08\x10\x14\x20])\0\0\0\x03)GNU\0",
    re.DOTALL,
)
Row = tuple[str, str, str]  # name, the fields that must be equal, time


def compare_formats(first: bytes, second: bytes) -> Iterator[tuple[str, Any]]:
    """Yield at most one (kind, evidence) for two contents.

    It is "time" or "order" with words, or "inner" with two decompressed contents. There is none if the two
    have no known format, or differ in more than times and order.
    """
    for mark, look in _FORMATS:
        if first.startswith(mark) and second.startswith(mark):
            try:
                difference = look(first, second)
            except (*UNREADABLE, IndexError, OSError, zlib.error, zipfile.BadZipFile, RuntimeError):
                difference = None  # damaged, encrypted, or only similar to the format
            if difference:
                yield difference
            return
    if first[257:262] == second[257:262] == b"ustar":
        try:
            difference = _compare_rows("members of the tar", _tar_rows(first), _tar_rows(second))
        except (*UNREADABLE, BuildError):
            difference = None
        if difference:
            yield difference


def without_build_ids(content: bytes) -> bytes:
    """Return an ELF file's digest without its build ids.

    Any other content is returned as it is.
    """
    if not content.startswith(b"\x7fELF"):
        return content
    digest, start = hashlib.sha256(), 0
    for match in _BUILD_ID.finditer(content):
        length = (match[1] or match[2])[0]
        digest.update(content[start : match.end()])
        start = match.end() + length
    digest.update(content[start:])
    return digest.digest()


def _compare_rows(subject: str, first: list[Row], second: list[Row]) -> tuple[str, str] | None:
    """Return the difference of two member lists, or None.

    It is reported only if they are the same except for times, or for their order.
    """
    same = [[row[:2] for row in side] for side in (first, second)]
    if sorted(same[0]) != sorted(same[1]):
        return None
    times = sorted(first) != sorted(second)
    if same[0] != same[1]:
        return "order", f"the {subject} in another order{', with other times' if times else ''}"
    if times:
        pair = next((a, b) for a, b in zip(first, second, strict=True) if a != b)
        return "time", f"the times of {subject}, the first: {pair[0][2]} and {pair[1][2]}"
    return None


def _compare_gzip(first: bytes, second: bytes) -> tuple[str, Any] | None:
    inner = [_inflate(side) for side in (first, second)]
    if inner[0] != inner[1]:
        return "inner", (inner[0], inner[1])
    times = [int.from_bytes(side[4:8], "little") for side in (first, second)]
    if first[:4] + first[8:] == second[:4] + second[8:]:
        return "time", f"the time in the gzip header, {times[0]} and {times[1]}"
    return None


def _inflate(content: bytes) -> bytes:
    stream = zlib.decompressobj(31)
    inflated = stream.decompress(content, LARGEST)
    if not stream.eof or stream.unused_data:
        raise ValueError("too large, cut short or in several parts")
    return inflated


def _compare_zip(first: bytes, second: bytes) -> tuple[str, Any] | None:
    return _compare_rows("members of the zip", _zip_rows(first), _zip_rows(second))


def _zip_rows(content: bytes) -> list[Row]:
    rows: list[Row] = []
    budget = LARGEST
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        infos = archive.infolist()
        if len(infos) > MOST_MEMBERS:
            raise ValueError("too many members")
        for info in infos:
            digest = hashlib.sha256()
            with archive.open(info) as stream:
                while chunk := stream.read(min(1 << 20, budget + 1)):
                    budget -= len(chunk)
                    if budget < 0:
                        raise ValueError("too large")
                    digest.update(chunk)
            fixed = f"{digest.hexdigest()} {info.external_attr} {info.compress_type} {info.comment!r}"
            rows.append((info.filename, fixed, "{}-{:02}-{:02} {:02}:{:02}:{:02}".format(*info.date_time)))
    return rows


def _tar_rows(content: bytes) -> list[Row]:
    rows: list[Row] = []
    for info, opened in members(io.BytesIO(content)):
        if len(rows) >= MOST_MEMBERS:
            raise ValueError("too many members")
        entry = with_hash(entry_of(info), opened)
        rows.append((info.name, f"{entry} {info.uname} {info.gname}", str(info.mtime)))
    return rows


def _compare_ar(first: bytes, second: bytes) -> tuple[str, Any] | None:
    return _compare_rows("members of the static library", _ar_rows(first), _ar_rows(second))


def _ar_rows(content: bytes) -> list[Row]:
    """Return the members of an `ar` archive (ar(5))."""
    rows: list[Row] = []
    at = 8
    while at < len(content):
        header = content[at : at + 60]
        if len(header) != 60 or header[58:] != b"`\n":
            raise ValueError("damaged")
        size = int(header[48:58])
        body = content[at + 60 : at + 60 + size]
        if size < 0 or len(body) != size or len(rows) >= MOST_MEMBERS:
            raise ValueError("damaged")
        fixed = f"{header[28:58]!r} {hashlib.sha256(body).hexdigest()}"
        rows.append((repr(header[:16]), fixed, header[16:28].decode("ascii").strip()))
        at += 60 + size + size % 2
    return rows


def _compare_keystores(first: bytes, second: bytes) -> tuple[str, Any] | None:
    sides = [_certificate_rows(side) for side in (first, second)]
    return _compare_rows("certificates of the Java key store", sides[0], sides[1])


def _certificate_rows(content: bytes) -> list[Row]:
    """Return the trusted certificates of a Java key store.

    The format is that of `sun.security.provider.JavaKeyStore`. After magic, version and count, each has a tag
    (2), an alias, a time in ms, a type and the certificate; a digest over all, with the password, ends the
    file.
    """
    stream, rows = io.BytesIO(content[:-20]), list[Row]()

    def number(size: int) -> int:
        raw = stream.read(size)
        if len(raw) != size:
            raise ValueError("cut short")
        return int.from_bytes(raw, "big")

    def sized(size: int) -> bytes:
        length = number(size)
        if length > len(content):
            raise ValueError("cut short")
        return stream.read(length)

    number(4)
    number(4)
    for _ in range(min(number(4), MOST_MEMBERS)):
        if number(4) != 2:
            raise ValueError("a private key, which is not looked into")
        alias, time = sized(2), number(8)
        kind, certificate = sized(2), sized(4)
        rows.append(
            (repr(alias), f"{kind!r} {hashlib.sha256(certificate).hexdigest()}", f"{time / 1000:.3f}")
        )
    if stream.read(1):
        raise ValueError("more than it states")
    return rows


_FORMATS: tuple[tuple[bytes, Callable[[bytes, bytes], tuple[str, Any] | None]], ...] = (
    (b"\x1f\x8b\x08", _compare_gzip),
    (b"PK\x03\x04", _compare_zip),
    (b"!<arch>\n", _compare_ar),
    (b"\xfe\xed\xfe\xed", _compare_keystores),
)
