"""A library search path, added to an existing program.

The program has none, or too short a one. The new string goes into the zeros that a linker leaves between two
segments, where the loader maps it with the page before it; the tag takes one of the spare entries at the end
of the dynamic segment. No other byte of the file moves. Format:
https://refspecs.linuxfoundation.org/elf/gabi4+/ch5.pheader.html
"""

from __future__ import annotations

import struct

from msgspec import Struct

from reprobuild.infra.untrusted.elf import MOST_SEGMENTS, MOST_TAGS

_MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little-endian: both machines of our images
_LOAD, _DYNAMIC = 1, 2
_NULL, _STRTAB, _STRSZ, _RPATH, _RUNPATH = 0, 5, 10, 15, 29
_PAGE = 4096  # the smallest of any machine: bytes in the same page of the file are mapped together


class _Segment(Struct, frozen=True):
    kind: int
    place: int
    address: int
    size: int
    in_memory: int


def with_search_path(data: bytes, text: bytes) -> bytes | None:
    """Return a program with a library search path, or None.

    None means that the file has no room for it, or is damaged.

    Args:
        data: the complete file.
        text: the directories, in the form of DT_RUNPATH.
    """
    try:
        return _write_search_path(data, text)
    except (struct.error, ValueError, KeyError, OverflowError, StopIteration):
        return None


def _write_search_path(data: bytes, text: bytes) -> bytes | None:
    if not data.startswith(_MAGIC):
        return None
    segments = _segments(data)
    dynamic = next(segment for segment in segments if segment.kind == _DYNAMIC)
    tags = [
        struct.unpack_from("<qQ", data, dynamic.place + 16 * number)
        for number in range(min(dynamic.size // 16, MOST_TAGS))
    ]
    kinds = [tag for tag, _ in tags]
    end = kinds.index(_NULL)
    strings = tags[kinds.index(_STRTAB, 0, end)][1]
    size = kinds.index(_STRSZ, 0, end)
    holder = next(
        segment for segment in segments
        if segment.kind == _LOAD and segment.address <= strings < segment.address + segment.size
        and segment.size == segment.in_memory
    )  # fmt: skip
    place, length = holder.place + holder.size, len(text) + 1
    after = [segment.place for segment in segments if segment.kind == _LOAD and segment.place >= place]
    if not after:  # the next bytes are no padding: sections that are not loaded
        return None
    if place + length > min([-(-place // _PAGE) * _PAGE, len(data), *after]) or any(
        data[place : place + length]
    ):
        return None
    known = next((kinds.index(kind, 0, end) for kind in (_RUNPATH, _RPATH) if kind in kinds[:end]), None)
    if known is None and (end + 1 >= len(kinds) or kinds[end + 1] != _NULL):
        return None  # the entry that ends the list must stay
    offset = holder.address + holder.size - strings
    content = bytearray(data)
    content[place : place + len(text)] = text
    number, kind = (end, _RUNPATH) if known is None else (known, kinds[known])
    struct.pack_into("<qQ", content, dynamic.place + 16 * number, kind, offset)
    struct.pack_into("<qQ", content, dynamic.place + 16 * size, _STRSZ, max(tags[size][1], offset + length))
    return bytes(content)


def _segments(data: bytes) -> list[_Segment]:
    (start,) = struct.unpack_from("<Q", data, 32)
    width, count = struct.unpack_from("<HH", data, 54)
    rows = [
        struct.unpack_from("<IIQQQQQQ", data, start + width * n) for n in range(min(count, MOST_SEGMENTS))
    ]
    return [
        _Segment(kind, place, address, size, memory) for kind, _, place, address, _, size, memory, _ in rows
    ]
