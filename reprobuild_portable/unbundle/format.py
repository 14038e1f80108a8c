"""The format of a bundle: limits, members and tar headers."""

from __future__ import annotations

from typing import NamedTuple

MANIFEST, SIGNATURE = "bundle.json", "bundle.json.sig"
FORM = 1
BLOCK, RECORD, CHUNK = 512, 10240, 1 << 20
LARGEST_MANIFEST, LARGEST_SIGNATURE, LARGEST_FILE = 8 << 20, 1 << 16, 1 << 50  # of 40,000 members
LARGEST_INDEX = 4 << 20  # bytes of a JSON file of an image
MOST_NAMED = 20  # damaged members that one message names
PAGE = "report.html"
CHANGED = ("verdict.json", PAGE)  # a check of the image writes them anew
AGAIN = "copy it again, or make it again with `reprobuild bundle`; what is whole already is kept"
NO_BUNDLE = "is it a file that `reprobuild bundle` wrote?"


class RefusedError(Exception):
    """An error for a bundle that cannot be accepted.

    The message describes the problem, and the hint the remedy.
    """

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class Member(NamedTuple):
    """A file of the bundle.

    `link` is the earlier path with the same bytes, because a bundle stores them once.
    """

    path: str
    sha256: str
    size: int
    link: str = ""


def padding_size(size: int, block: int = BLOCK) -> int:
    """Return the number of zero bytes after `size` bytes."""
    return -size % block


def header(path: str, size: int, epoch: int, link: str = "") -> bytes:
    """Return the tar header of a file or hard link.

    The format is POSIX ustar, with pax records if ustar has no room.

    https://pubs.opengroup.org/onlinepubs/9699919799/utilities/pax.html#tag_20_92_13_06
    """
    name, target = path.encode(), link.encode()
    records = b""
    for key, value, fits in (
        (b"path", name, len(name) <= 100),
        (b"linkpath", target, len(target) <= 100),
        (b"size", b"%d" % size, size < 1 << 33),
    ):
        records += b"" if fits else _record(key, value)
    kind = b"1" if link else b"0"
    block = _make_ustar_header(name[:100], size if size < 1 << 33 else 0, epoch, kind, target[:100])
    if not records:
        return block
    return (
        _make_ustar_header(b"./pax", len(records), epoch, b"x", b"")
        + records
        + bytes(padding_size(len(records)))
        + block
    )


def _record(key: bytes, value: bytes) -> bytes:
    rest = b" %s=%s\n" % (key, value)
    size = len(rest) + len(str(len(rest)))
    return b"%d%s" % (len(rest) + len(str(size)), rest)


def _make_ustar_header(name: bytes, size: int, epoch: int, kind: bytes, link: bytes) -> bytes:
    start = name.ljust(100, b"\0") + b"0000644\0" + b"0000000\0" * 2 + b"%011o\0%011o\0" % (size, epoch)
    end = kind + link.ljust(100, b"\0") + b"ustar\x0000" + bytes(64) + b"0000000\0" * 2 + bytes(167)
    return start + b"%06o\0 " % (sum(start) + sum(end) + 8 * 32) + end
