"""Checks of a squashfs's extended attributes.

They refuse attributes that the kernel and `sqfs2tar` read differently.
"""

from __future__ import annotations

import struct
from typing import IO

from reprobuild.image.formats.squashfs_blocks import MetadataTable, Rows, Unpack

NO_TABLE, NONE = 2**64 - 1, 0xFFFFFFFF
_HEAD, _SET = struct.Struct("<Q2I"), struct.Struct("<Q2I")
_KEY, _SIZE = struct.Struct("<2H"), struct.Struct("<I")
_ELSEWHERE = 0x100  # the value is at another position
_PREFIXES = 3  # user, trusted, security
_LONGEST_KEY, _LONGEST_VALUE = 255, 64 << 10  # of Linux
_AMBIGUOUS = {0, ord("=")}  # `=` ends a key in the pax header of `sqfs2tar`
_MOST = 1_000_000  # of all sets together; they can share their keys


class Attributes:
    """The sets of attributes; each inode has one's number."""

    def __init__(self, stream: IO[bytes], at: int, unpack: Unpack) -> None:
        self._sets: Rows | None = None
        self._checked: set[int] = set()
        self._left = _MOST
        if at == NO_TABLE:
            return
        stream.seek(at)
        start, count, _ = _HEAD.unpack(stream.read(_HEAD.size))
        self._keys = MetadataTable(stream, start, unpack)
        self._sets = Rows(stream, at + _HEAD.size, count, _SET, unpack)

    def check(self, number: int) -> None:
        """Refuse a set with ambiguous keys or values.

        Raises:
            ValueError: it is missing, has a key twice, one with a NUL or of an unknown type, or too much.
        """
        if number == NONE or number in self._checked:
            return
        if self._sets is None:
            raise ValueError("an inode has attributes, and the file has no table of them")
        place, count, _ = self._sets[number]
        self._left -= count
        if self._left < 0:
            raise ValueError(f"its files have more than {_MOST} extended attributes")
        block, offset, names = place >> 16, place & 0xFFFF, set()
        for _ in range(count):
            kind, size = _KEY.unpack(self._keys.read(block, offset, _KEY.size))
            name = self._keys.read(block, offset + _KEY.size, size)
            shown = name.decode(errors="replace")[:100]
            if (
                kind & ~_ELSEWHERE >= _PREFIXES
                or not name
                or len(name) > _LONGEST_KEY
                or _AMBIGUOUS & set(name)
            ):
                raise ValueError(f"the extended attribute {shown!r} has a name or type that is none")
            if (kind & ~_ELSEWHERE, name) in names:
                raise ValueError(f"a file has the extended attribute {shown!r} twice")
            names.add((kind & ~_ELSEWHERE, name))
            block, offset = self._keys.after(block, offset + _KEY.size + size)
            offset += self._check_value(block, offset, elsewhere=bool(kind & _ELSEWHERE))
            block, offset = self._keys.after(block, offset)
        self._checked.add(number)

    def _check_value(self, block: int, offset: int, *, elsewhere: bool) -> int:
        """Return the bytes of a value beside its key."""
        size: int = _SIZE.unpack(self._keys.read(block, offset, _SIZE.size))[0]
        if elsewhere:
            if size != 8:  # a position
                raise ValueError("a value of an extended attribute has no position")
            (place,) = struct.unpack("<Q", self._keys.read(block, offset + _SIZE.size, 8))
            self._check_value(place >> 16, place & 0xFFFF, elsewhere=False)
        elif size > _LONGEST_VALUE:
            raise ValueError(f"a value of an extended attribute has {size} bytes")
        else:
            self._keys.read(block, offset + _SIZE.size, size)
        return _SIZE.size + size
