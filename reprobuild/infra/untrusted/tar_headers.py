"""Headers of tar: blocks of 512 bytes, and pax records.

A value that readers read differently is refused.
"""

from __future__ import annotations

import re
import tarfile

from msgspec import Struct

BLOCK = tarfile.BLOCKSIZE
_POSIX, _GNU, _STAR = b"ustar\0", b"ustar  \0", b"tar\0"
# Some readers take the text after leading zeros as the number, and others do not.
_OCTAL = re.compile(rb" *([0-7]+) *(?:\0.*)?|[ \0]*", re.DOTALL)
_CHECKSUM = slice(148, 156)
_PREFIX = slice(345, 500)
# The prefix of star ends before two times.
_STAR_PREFIX = slice(345, 476)
_MOST = 1 << 63
_LENGTH = re.compile(rb"[0-9]{1,18} ")
_DIGITS = re.compile(rb"\d{100}")
_NUMBER = re.compile(r"[0-9]{1,19}")
_TIME = re.compile(r"-?[0-9]{1,18}(\.[0-9]*)?")
_TIMES = ("atime", "ctime", "mtime")


class Header(Struct, frozen=True, gc=False):
    """The fields of one header block."""

    name: bytes
    kind: bytes
    link: bytes
    mode: int
    uid: int
    gid: int
    size: int
    mtime: int
    uname: bytes
    gname: bytes
    device: tuple[int, int]


class Pax(dict[str, str]):
    """The records of a pax header."""

    def number(self, key: str, plain: int) -> int:
        """Return a stated number, else `plain`.

        Raises:
            tarfile.ReadError: it is not a number for all readers.
        """
        text = self.get(key)
        if text is None:
            return plain
        if text.startswith("-"):
            raise tarfile.ReadError(f"a member has a negative {key}")
        if not _NUMBER.fullmatch(text) or int(text) >= _MOST:
            raise tarfile.ReadError(f"a pax header states the {key} {text[:40]!r}")
        return int(text)

    def time(self, plain: int) -> float:
        """Return the time of the content, else `plain`.

        Raises:
            tarfile.ReadError: a time is not valid for all readers.
        """
        for key in _TIMES:
            text = self.get(key)
            if text and not _TIME.fullmatch(text):
                raise tarfile.ReadError(f"a pax header states the {key} {text[:40]!r}")
        return float(self.get("mtime") or plain)


def parse_header(block: bytes) -> Header:
    """Return the header in a block.

    Raises:
        tarfile.ReadError: it is damaged, or readers would disagree.
    """
    _check_sum(block)
    kind, prefix = block[156:157], block[_PREFIX].partition(b"\0")[0]
    posix = block[257:263] == _POSIX
    if prefix and not posix:
        raise tarfile.ReadError("a header has a prefix that some readers take for a time")
    if prefix and block[508:] == _STAR and b"\0" not in block[_STAR_PREFIX]:
        raise tarfile.ReadError("a header has a prefix that some readers take for a time")
    if kind in (tarfile.CHRTYPE, tarfile.BLKTYPE) and not posix and block[257:265] != _GNU:
        raise tarfile.ReadError("a header of the oldest format describes a device")
    name = block[:100].partition(b"\0")[0]
    if prefix and not name:
        raise tarfile.ReadError("a header has a prefix without a name")
    return Header(
        name=prefix + b"/" + name if prefix else name, kind=kind, link=block[157:257].partition(b"\0")[0],
        mode=_count(block[100:108], "mode"), uid=_count(block[108:116], "uid"), gid=_count(block[116:124], "gid"),
        size=_count(block[124:136], "size"), mtime=_number(block[136:148], "mtime"),
        uname=block[265:297].partition(b"\0")[0], gname=block[297:329].partition(b"\0")[0],
        device=(_count(block[329:337], "device"), _count(block[337:345], "device")),
    )  # fmt: skip


def _check_sum(block: bytes) -> None:
    field = _OCTAL.fullmatch(block[_CHECKSUM])
    if field is None or not field[1]:
        raise tarfile.ReadError("a header cannot be read: bad checksum")
    rest = block[: _CHECKSUM.start] + b" " * 8 + block[_CHECKSUM.stop :]
    total, stated = sum(rest), int(field[1], 8)
    if stated != total and stated != total - 256 * sum(byte > 127 for byte in rest):
        raise tarfile.ReadError("a header cannot be read: bad checksum")


def _number(field: bytes, name: str) -> int:
    if field[0] in (0x80, 0xFF):  # GNU: base 256
        number = int.from_bytes(field[1:], "big") - (1 << 8 * (len(field) - 1) if field[0] == 0xFF else 0)
        if -_MOST <= number < _MOST:
            return number
    elif (match := _OCTAL.fullmatch(field)) is not None:
        return int(match[1] or b"0", 8)
    raise tarfile.ReadError(f"a header cannot be read: the {name} {field!r}")


def _count(field: bytes, name: str) -> int:
    count = _number(field, name)
    if count < 0:
        raise tarfile.ReadError(f"a member has a negative {name}")
    return count


def parse_pax(content: bytes) -> Pax:
    """Return the records of a pax header.

    Raises:
        tarfile.ReadError: a record is damaged, or readers would disagree.
    """
    records, start = Pax(), 0
    while start < len(content):
        length = _LENGTH.match(content, start)
        if length is None:
            many = _DIGITS.match(content, start)
            raise tarfile.ReadError(
                "a pax header holds a number of a hundred digits" if many else "a pax header is damaged"
            )
        end = start + int(length[0])
        key, equals, value = content[length.end() : max(end - 1, 0)].partition(b"=")
        if content[end - 1 : end] != b"\n" or not key or not equals or b"\0" in key:
            raise tarfile.ReadError("a pax header is damaged")
        if key in (b"path", b"linkpath", b"uname", b"gname") and b"\0" in value:
            raise tarfile.ReadError(f"a pax header has the unsafe {key.decode()} {value[:60]!r}")
        if key in (b"size", b"uid", b"gid") and not value:
            raise tarfile.ReadError(f"a pax header states an empty {key.decode()}")
        records[key.decode("utf-8", "surrogateescape")] = value.decode("utf-8", "surrogateescape")
        start = end
    return records


def parse_text(field: bytes) -> str:
    """Return the text of a field, up to a NUL.

    Bytes that are not UTF-8 become surrogates.
    """
    return field.partition(b"\0")[0].decode("utf-8", "surrogateescape")
