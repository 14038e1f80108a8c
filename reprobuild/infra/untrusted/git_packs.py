"""Bounds on the unpacked objects of a git pack.

The pack is checked before git unpacks it: a few bytes can state gigabytes.
https://git-scm.com/docs/pack-format. Git streams large files, and holds every other object and each result of
a delta in memory. It makes no delta of a file above `core.bigFileThreshold`, 512 MiB.
"""

from __future__ import annotations

import struct
import zlib

LARGEST = 512 << 20
# Git makes some 200 MB of objects in a second, and a delta of a few bytes may copy 512 MiB. Histories of text
# unpack to 10 to 60 times their pack; many versions of large files unpack to more, and a small pack may be
# one of them.
ALLOWANCE = 4 << 30
RATIO = 400
_HEAD = struct.Struct(">4sII")
_FILE, _BY_OFFSET, _BY_NAME = 3, 6, 7
_MOST_BITS = 63  # of a number in a header; git refuses more than 64
_START = 20  # bytes of a delta's two sizes, seven bits in each
_PIECE = 64 << 10
_UNPACKED = 1 << 20


def check_pack(pack: bytes, id_size: int) -> None:
    """Refuse a pack with huge objects or too much work.

    Git would hold such an object in memory, or make objects for minutes.

    Args:
        pack: without the header of a bundle.
        id_size: bytes of an object's id, 20 or 32.

    Raises:
        ValueError: an object or the result of a delta has more than `LARGEST` bytes, all together have more
            than `most_objects`, or the pack is damaged.
    """
    total = _Total(len(pack))
    try:
        _, _, count = _HEAD.unpack_from(pack)
        at = _HEAD.size
        for _ in range(count):
            at = _check_object(pack, at, id_size, total)
    except (struct.error, IndexError, zlib.error):
        raise ValueError("its pack is damaged") from None


def most_objects(packed: int) -> int:
    """Return the byte limit on a pack's objects together.

    `packed` is the number of bytes of the pack.
    """
    return max(ALLOWANCE, RATIO * packed)


class _Total:
    """The bytes that git makes of a pack.

    `packed` is the number of bytes of the pack. They are objects, deltas and their results.
    """

    def __init__(self, packed: int) -> None:
        self._packed, self._most = packed, most_objects(packed)
        self._bytes = 0

    def add(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self._most:
            raise ValueError(f"its pack has {self._packed} bytes, and its objects more than {self._most}")


def _check_object(pack: bytes, at: int, id_size: int, total: _Total) -> int:
    """Check an object, and return the offset of the next."""
    kind, size = pack[at] >> 4 & 7, pack[at] & 15
    shift = 4
    while pack[at] & 128:
        at += 1
        if shift > _MOST_BITS:
            raise ValueError("an object of its pack states a size without an end")
        size |= (pack[at] & 127) << shift
        shift += 7
    at += 1
    if kind != _FILE:
        _limit(size)
    total.add(size)
    if kind == _BY_OFFSET:
        while pack[at] & 128:
            at += 1
        at += 1
    elif kind == _BY_NAME:
        at += id_size
    start, at = _skip(pack, at, size)
    if kind in (_BY_OFFSET, _BY_NAME):
        base, rest = read_number(start)
        result, _ = read_number(rest)
        _limit(base)
        _limit(result)
        total.add(result)
    return at


def _skip(pack: bytes, at: int, size: int) -> tuple[bytes, int]:
    """Unpack one object in pieces, without keeping it.

    Return its first bytes and the offset after it.
    """
    unpack, start, total = zlib.decompressobj(), b"", 0
    while not unpack.eof:
        piece = pack[at : at + _PIECE]
        if not piece:
            raise ValueError("its pack is cut short")
        content = unpack.decompress(piece, _UNPACKED)
        # After the end of the data zlib returns the rest as unused, and may return it as the tail, too.
        at += len(piece) - len(unpack.unused_data or unpack.unconsumed_tail)
        total += len(content)
        if total > size:
            raise ValueError("an object of its pack is longer than it says")
        start = (start + content[:_START])[:_START]
    return start, at


def _limit(size: int) -> None:
    if size > LARGEST:
        raise ValueError(f"an object of its pack has {size} bytes, and git would hold it in memory")


def read_number(data: bytes) -> tuple[int, bytes]:
    """Return a number of a delta's header, and the rest.

    The lowest seven bits come first.

    Raises:
        ValueError: it has no end.
    """
    value = 0
    for place, byte in enumerate(data):
        value |= (byte & 127) << 7 * place
        if byte < 128:
            return value, data[place + 1 :]
    raise ValueError("a number without an end")
