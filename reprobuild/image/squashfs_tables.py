"""Inodes and directories of a squashfs, read as the kernel reads them, for the ways in which programs differ.

https://dr-emann.github.io/squashfs/squashfs.html has the format. `sqfs2tar` finds hard links by the number in an inode,
and the kernel by the number in the row of a directory. `sqfs2tar` reads each directory from its start, and the kernel
looks a name up through the directory's index. A file in which they would differ is refused.
"""

from __future__ import annotations

import lzma
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import IO

import zstandard
from msgspec import Struct

from reprobuild.guard.names import MOST_MEMBERS

_SUPER = struct.Struct("<5I6H8Q")
_HEAD = struct.Struct("<4H2I")
_BLOCK = 8192  # of metadata, unpacked
_STORED = 0x8000
_WINDOW = 8 << 20  # of zstd; a block needs 8 KiB
_NO_ATTRIBUTES, _NO_TABLE = 0x200, 2**64 - 1
_CACHED = 2048
_BASIC, _EXTENDED = 1, 8  # the type of a directory
_HEADER, _ROW = struct.Struct("<3I"), struct.Struct("<HhHH")
_INDEX = struct.Struct("<3I")
_ENDS = 3  # the size of a directory counts `.` and `..`, which are not written
_LONGEST_NAME = 256
_MOST_OF_ROWS = 64 << 20  # bytes of one directory, which are held; a million names have some 30 MiB
_MODE = 0o7777


def _unzstd(packed: bytes) -> bytes:
    # A frame may state any size, for which `decompress` would take the memory at once.
    with zstandard.ZstdDecompressor(max_window_size=_WINDOW).stream_reader(packed) as stream:
        return stream.read(_BLOCK + 1)


def _gunzip(packed: bytes) -> bytes:
    return zlib.decompressobj().decompress(packed, _BLOCK)


def _unxz(packed: bytes) -> bytes:
    return lzma.LZMADecompressor(memlimit=256 << 20).decompress(packed, _BLOCK)


_UNPACKERS: Mapping[int, Callable[[bytes], bytes]] = {1: _gunzip, 4: _unxz, 6: _unzstd}


class _Directory(Struct, frozen=True):
    """Where the rows of a directory are, their bytes, and its index: (position in the rows, block, first name)."""

    block: int
    offset: int
    size: int
    index: tuple[tuple[int, int, bytes], ...] = ()


class _Table:
    """A table of metadata: blocks of 8 KiB, packed one by one. A position is (block, offset in it)."""

    def __init__(self, stream: IO[bytes], start: int, unpack: Callable[[bytes], bytes]) -> None:
        self._stream, self._start, self._unpack = stream, start, unpack
        self._read_block = lru_cache(_CACHED)(self._read_at)

    def _read_at(self, block: int) -> tuple[bytes, int]:
        """Return the unpacked block that begins so many bytes after the table's start, and the next one's begin."""
        self._stream.seek(self._start + block)
        (header,) = struct.unpack("<H", self._stream.read(2))
        packed = self._stream.read(header & (_STORED - 1))
        content = packed if header & _STORED else self._unpack(packed)
        if len(content) > _BLOCK:
            raise ValueError("a block of metadata is too long")
        return content, block + 2 + (header & (_STORED - 1))

    def read(self, block: int, offset: int, size: int) -> bytes:
        """Return the bytes from so many bytes after the begin of a block."""
        pieces = []
        block, offset = self.after(block, offset)
        while size:
            content, following = self._read_block(block)
            piece = content[offset : offset + size]
            pieces.append(piece)
            size -= len(piece)
            if size and len(content) < _BLOCK:  # the last one; the kernel counts on all others being whole
                raise ValueError("a table of metadata ends early")
            block, offset = following, 0
        return b"".join(pieces)

    def after(self, block: int, offset: int) -> tuple[int, int]:
        """Return the block and the offset in it of a place so many bytes after the begin of a block."""
        while offset >= _BLOCK:
            content, following = self._read_block(block)
            if len(content) < _BLOCK:
                raise ValueError("a table of metadata ends early")
            block, offset = following, offset - _BLOCK
        return block, offset


class _Tables:
    def __init__(self, stream: IO[bytes], super_block: tuple[int, ...]) -> None:
        unpack = _UNPACKERS.get(super_block[5])
        if unpack is None:
            raise ValueError("it is packed by another program than gzip, xz or zstd")
        self.inodes = _Table(stream, super_block[15], unpack)
        self.directories = _Table(stream, super_block[16], unpack)

    def inode(self, place: int) -> tuple[int, int, _Directory | None]:
        """Return the type without its extension, the number, and the directory of the inode at a place."""
        block, offset = place >> 16, place & 0xFFFF
        kind, mode, _, _, _, number = _HEAD.unpack(self.inodes.read(block, offset, _HEAD.size))
        if not 1 <= kind <= 14:
            raise ValueError(f"an inode has the unknown type {kind}")
        if mode & ~_MODE:
            raise ValueError(f"an inode has the impossible mode {mode:o}")
        return (kind - 1) % 7 + 1, number, self._directory(kind, block, offset + _HEAD.size)

    def _directory(self, kind: int, block: int, offset: int) -> _Directory | None:
        if kind == _BASIC:
            rows, _, size, start, _ = struct.unpack("<2I2HI", self.inodes.read(block, offset, 16))
            return _Directory(rows, start, size)
        if kind != _EXTENDED:
            return None
        head = self.inodes.read(block, offset, 24)
        _, size, rows, _, count, start, _ = struct.unpack("<4I2HI", head)
        index, at = [], offset + 24
        for _ in range(count):
            position, where, length = _INDEX.unpack(self.inodes.read(block, at, _INDEX.size))
            if length >= _LONGEST_NAME:
                raise ValueError("the index of a directory has a name that is too long")
            index.append((position, where, self.inodes.read(block, at + _INDEX.size, length + 1)))
            at += _INDEX.size + length + 1
        return _Directory(rows, start, size, tuple(index))

    def rows(self, directory: _Directory) -> Iterator[tuple[bytes, int, int, int]]:
        """Yield name, type, number and place of the inode of each row, after the index was compared with them.

        Raises:
            ValueError: names do not rise, a row is cut, the index leads elsewhere, or there are too many rows.
        """
        size = max(directory.size - _ENDS, 0)
        if size > _MOST_OF_ROWS:
            raise ValueError(f"a directory has {size} bytes of rows, and at most {_MOST_OF_ROWS} are read")
        rows = self.directories.read(directory.block, directory.offset, size) if size else b""
        heads: dict[int, bytes] = {}
        last, at = b"", 0
        while at < size:
            head, (count, block, base) = at, _HEADER.unpack_from(rows, at)
            at += _HEADER.size
            for _ in range(count + 1):
                offset, difference, kind, length = _ROW.unpack_from(rows, at)
                name = rows[at + _ROW.size : at + _ROW.size + length + 1]
                at += _ROW.size + length + 1
                if at > size:
                    raise ValueError("the rows of a directory are cut short")
                if {0, ord("/")} & set(name) or name in (b".", b".."):
                    raise ValueError(f"the name {name.decode(errors='replace')[:100]!r} is none of a file")
                if name <= last:  # the kernel opens the first of two, and ends where a name is greater
                    shown = name.decode(errors="replace")[:100]
                    raise ValueError(f"the name {shown!r} stands in its folder twice, or out of order")
                heads.setdefault(head, name)
                last = name
                yield name, kind, (base + difference) & 0xFFFFFFFF, block << 16 | offset
        for position, where, name in directory.index:
            block, _ = self.directories.after(directory.block, directory.offset + position)
            if heads.get(position) != name or block != where:
                raise ValueError("the index of a directory leads elsewhere than its rows")


def check_tables(path: Path) -> None:
    """Refuse a squashfs in which the kernel would find other files than a program that lists it.

    Args:
        path: the squashfs.

    Raises:
        ValueError: two inodes have one number, a row and its inode have two, an index leads elsewhere, a mode has
            bits of a type, a name is none, attributes are hidden, or a table is damaged.
    """
    try:
        with path.open("rb") as stream:
            super_block = _SUPER.unpack(stream.read(_SUPER.size))
            # With the flag `sqfs2tar` skips the table, and the kernel reads it.
            if super_block[7] & _NO_ATTRIBUTES and super_block[14] != _NO_TABLE:
                raise ValueError("it says that it has no extended attributes, and has them")
            _check(_Tables(stream, super_block), super_block[11])
    except (struct.error, zlib.error, lzma.LZMAError, zstandard.ZstdError, EOFError, OverflowError) as err:
        raise ValueError(f"a table of metadata cannot be read: {err}") from None


def _check(tables: _Tables, root: int) -> None:
    places: dict[int, int] = {}
    rows = 0  # directories can share their rows
    waiting = [(root, _BASIC, tables.inode(root)[1])]
    while waiting:
        place, kind, number = waiting.pop()
        found, own, directory = tables.inode(place)
        if (found, own) != (kind, number):
            raise ValueError(f"the inode {number} is another one than the row of its directory says")
        if places.setdefault(number, place) != place:
            raise ValueError(f"two inodes have the number {number}")
        for _, each, its, where in tables.rows(directory) if directory else ():
            rows += 1
            if rows > MOST_MEMBERS:
                raise ValueError(f"its directories have more than {MOST_MEMBERS} rows")
            if each == _BASIC and its in places:
                raise ValueError(f"the directory with the number {its} stands twice")
            waiting.append((where, each, its))
