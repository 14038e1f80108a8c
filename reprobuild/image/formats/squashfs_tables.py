"""Inodes and directories of a squashfs, as the kernel reads.

https://dr-emann.github.io/squashfs/squashfs.html has the format. `sqfs2tar` finds hard links by the number in
an inode, and the kernel by the number in the row of a directory. `sqfs2tar` reads each directory from its
start, and the kernel looks a name up through the directory's index. An image on which they would differ is
refused.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from msgspec import Struct

from reprobuild.image.formats.squashfs_attributes import NO_TABLE, NONE, Attributes
from reprobuild.image.formats.squashfs_blocks import DAMAGE, MetadataTable, Rows, make_unpacker
from reprobuild.image.formats.squashfs_data import FRAGMENT, Content, Data
from reprobuild.infra.untrusted.names import LONGEST_PATH, MOST_MEMBERS

_SUPER = struct.Struct("<5I6H8Q")
_HEAD = struct.Struct("<4H2I")
_NO_ATTRIBUTES, _HAS_OPTIONS = 0x200, 0x400
_XZ = 4  # the number of the compressor
_DIRECTORY, _FILE, _LINK, _DEVICES = 1, 2, 3, (4, 5)
_HEADER, _ROW = struct.Struct("<3I"), struct.Struct("<HhHH")
_INDEX = struct.Struct("<3I")
_ENDS = 3  # the size of a directory counts `.` and `..`, which are not written
_LONGEST_NAME = 256
_MOST_OF_ROWS = 64 << 20  # bytes of one directory in memory; a million names have some 30 MiB
_MODE = 0o7777
_WHITEOUT = b".wh."


class _Directory(Struct, frozen=True):
    """The location and size of a directory's rows and index.

    The index is (position in the rows, block, first name).
    """

    block: int
    offset: int
    size: int
    index: tuple[tuple[int, int, bytes], ...] = ()


class _Inode(Struct, frozen=True):
    """The contents of an inode.

    `kind` is its type without its extension, `attributes` the number of a set of them.
    """

    kind: int
    number: int
    attributes: int = NONE
    directory: _Directory | None = None
    content: Content | None = None


def _dictionary_size(stream: IO[bytes], super_block: tuple[int, ...]) -> int:
    """Return the size of the kernel's dictionary, in bytes.

    It is a block, or for xz the size in the options.
    """
    if super_block[5] != _XZ or not super_block[7] & _HAS_OPTIONS:
        return super_block[3]
    stream.seek(_SUPER.size)
    size: int = struct.unpack("<HI", stream.read(6))[1]
    return min(size, super_block[3])


class _Tables:
    def __init__(self, stream: IO[bytes], super_block: tuple[int, ...], packed: int) -> None:
        unpack = make_unpacker(super_block[5], _dictionary_size(stream, super_block))
        self.inodes = MetadataTable(stream, super_block[15], unpack)
        self.directories = MetadataTable(stream, super_block[16], unpack)
        self.attributes = Attributes(stream, super_block[14], unpack)
        fragments = Rows(stream, super_block[17], super_block[4], FRAGMENT, unpack)
        self.data = Data(stream, super_block[3], fragments, unpack, packed)

    def inode(self, place: int) -> _Inode:
        """Return the inode at a position.

        Raises:
            ValueError: its type or mode is invalid, or it is damaged.
        """
        block, offset = place >> 16, place & 0xFFFF
        kind, mode, _, _, _, number = _HEAD.unpack(self.inodes.read(block, offset, _HEAD.size))
        if not 1 <= kind <= 14:
            raise ValueError(f"an inode has the unknown type {kind}")
        if mode & ~_MODE:
            raise ValueError(f"an inode has the impossible mode {mode:o}")
        plain, at = (kind - 1) % 7 + 1, offset + _HEAD.size
        if plain == _DIRECTORY:
            attributes, directory = self._directory(kind, block, at)
            return _Inode(plain, number, attributes, directory)
        if plain == _FILE:
            attributes, content = self._content(kind, block, at)
            return _Inode(plain, number, attributes, None, content)
        if plain == _LINK:
            _, size = struct.unpack("<2I", self.inodes.read(block, at, 8))
            if not 0 < size <= LONGEST_PATH or 0 in self.inodes.read(block, at + 8, size):
                raise ValueError("a link leads to a path that is none")
            at += 8 + size
        else:
            at += 8 if plain in _DEVICES else 4
        if kind == plain:
            return _Inode(plain, number)
        return _Inode(plain, number, *struct.unpack("<I", self.inodes.read(block, at, 4)))

    def _content(self, kind: int, block: int, at: int) -> tuple[int, Content]:
        if kind == _FILE:
            start, fragment, offset, size = struct.unpack("<4I", self.inodes.read(block, at, 16))
            attributes, at = NONE, at + 16
        else:
            start, size, _, _, fragment, offset, attributes = struct.unpack(
                "<3Q4I", self.inodes.read(block, at, 40)
            )
            at += 40
        count = self.data.count(size, fragment)
        blocks = struct.unpack(f"<{count}I", self.inodes.read(block, at, 4 * count))
        return attributes, Content(start, size, fragment, offset, blocks)

    def _directory(self, kind: int, block: int, offset: int) -> tuple[int, _Directory]:
        if kind == _DIRECTORY:
            rows, _, size, start, _ = struct.unpack("<2I2HI", self.inodes.read(block, offset, 16))
            return NONE, _Directory(rows, start, size)
        head = self.inodes.read(block, offset, 24)
        _, size, rows, _, count, start, attributes = struct.unpack("<4I2HI", head)
        index, at = [], offset + 24
        for _ in range(count):
            position, where, length = _INDEX.unpack(self.inodes.read(block, at, _INDEX.size))
            if length >= _LONGEST_NAME:
                raise ValueError("the index of a directory has a name that is too long")
            index.append((position, where, self.inodes.read(block, at + _INDEX.size, length + 1)))
            at += _INDEX.size + length + 1
        return attributes, _Directory(rows, start, size, tuple(index))

    def rows(self, directory: _Directory) -> Iterator[tuple[bytes, int, int, int]]:
        """Yield name, type, number and position of each row's inode.

        The index is compared with the rows afterwards.

        Raises:
            ValueError: names are not in order, a row is cut, the index leads elsewhere, or there are too many
                rows.
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
                _check_name(name)
                if name <= last:  # the kernel opens the first of two, and stops at a greater name
                    shown = name.decode(errors="replace")[:100]
                    raise ValueError(f"the name {shown!r} stands in its directory twice, or out of order")
                heads.setdefault(head, name)
                last = name
                yield name, kind, (base + difference) & 0xFFFFFFFF, block << 16 | offset
        former, block, offset = -1, directory.block, directory.offset
        for position, where, name in directory.index:
            if position <= former:  # the way to each begins at the former one
                raise ValueError("the index of a directory has a place twice, or out of order")
            if heads.get(position) != name:
                raise ValueError("the index of a directory leads elsewhere than its rows")
            block, offset = self.directories.after(block, offset + position - max(former, 0))
            if block != where:
                raise ValueError("the index of a directory leads elsewhere than its rows")
            former = position


def _check_name(name: bytes) -> None:
    """Refuse a name that is impossible or a whiteout's.

    The kernel shows a file `.wh.x`; in a layer it removes `x`, and is not a file itself.
    """
    shown = name.decode(errors="replace")[:100]
    if {0, ord("/")} & set(name) or name in (b".", b".."):
        raise ValueError(f"the name {shown!r} is none of a file")
    if name.startswith(_WHITEOUT):
        raise ValueError(f"the name {shown!r} is that of a whiteout in a layer")


def check_tables(path: Path) -> None:
    """Refuse a squashfs that the kernel reads differently.

    The comparison is with a program that lists it.

    Args:
        path: the squashfs.

    Raises:
        ValueError: two inodes have one number, a row and its inode have two, an index leads elsewhere, a mode
            has bits of a type, a name is invalid, attributes are hidden or ambiguous, a block of a file has a
            wrong size, or a table is damaged.
        BuildError: its files unpack to too much.
    """
    try:
        with path.open("rb") as stream:
            super_block = _SUPER.unpack(stream.read(_SUPER.size))
            # With the flag `sqfs2tar` skips the table, and the kernel reads it.
            if super_block[7] & _NO_ATTRIBUTES and super_block[14] != NO_TABLE:
                raise ValueError("it says that it has no extended attributes, and has them")
            _check(_Tables(stream, super_block, path.stat().st_size), super_block[11])
    except DAMAGE as err:
        raise ValueError(f"a table of metadata cannot be read: {err}") from None


def _check(tables: _Tables, root: int) -> None:
    places: dict[int, int] = {}
    rows = 0  # directories can share their rows
    waiting = [(root, _DIRECTORY, tables.inode(root).number)]
    while waiting:
        place, kind, number = waiting.pop()
        if places.get(number) == place and kind != _DIRECTORY:  # a hard link
            continue
        inode = tables.inode(place)
        if (inode.kind, inode.number) != (kind, number):
            raise ValueError(f"the inode {number} is another one than the row of its directory says")
        if places.setdefault(number, place) != place:
            raise ValueError(f"two inodes have the number {number}")
        tables.attributes.check(inode.attributes)
        if inode.content:
            tables.data.check(inode.content)
        for _, child_kind, child_number, child_place in (
            tables.rows(inode.directory) if inode.directory else ()
        ):
            rows += 1
            if rows > MOST_MEMBERS:
                raise ValueError(f"its directories have more than {MOST_MEMBERS} rows")
            if child_kind == _DIRECTORY and child_number in places:
                raise ValueError(f"the directory with the number {child_number} stands twice")
            waiting.append((child_place, child_kind, child_number))
