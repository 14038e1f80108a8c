"""Blocks of the files of a squashfs, checked for what the kernel cannot read and `sqfs2tar` can."""

from __future__ import annotations

import struct
from typing import IO

from msgspec import Struct

from reprobuild.image.formats.squashfs_blocks import Rows, Unpack
from reprobuild.infra.untrusted.budget import Allowance

NO_FRAGMENT = 0xFFFFFFFF
FRAGMENT = struct.Struct("<Q2I")
_STORED = 1 << 24
_SMALLEST, _LARGEST = 4096, 1 << 20  # bytes of a block


class Content(Struct, frozen=True):
    """Where the bytes of a file are: its first block, its size, its fragment, and the packed size of each block."""

    start: int
    size: int
    fragment: int
    offset: int
    blocks: tuple[int, ...]


class Data:
    """The blocks and fragments, of which several files can have the same."""

    def __init__(self, stream: IO[bytes], block: int, fragments: Rows, unpack: Unpack, packed: int) -> None:
        if not _SMALLEST <= block <= _LARGEST or block & (block - 1):
            raise ValueError(f"its blocks have {block} bytes")
        self._stream, self._block, self._fragments, self._unpack = stream, block, fragments, unpack
        self._sizes: dict[tuple[int, int], int] = {}
        self._allowance = Allowance(packed)

    def count(self, size: int, fragment: int) -> int:
        """Return how many blocks a file has, without its fragment.

        Raises:
            BuildError: all files together unpack to too much.
        """
        self._allowance.take_bytes(size, "a file")
        return size // self._block if fragment != NO_FRAGMENT else -(-size // self._block)

    def check(self, file: Content) -> None:
        """Refuse a file with a block of another size than its place needs.

        Raises:
            ValueError: a block is too short or too long, or has more than one frame.
        """
        at, left = file.start, file.size
        for word in file.blocks:
            size = word & ~_STORED
            if word and self._size(at, word) != min(self._block, left):
                raise ValueError("a block of a file has another size than its place needs")
            at += size
            left -= min(self._block, left)
        if file.fragment != NO_FRAGMENT and left:
            start, word, _ = self._fragments[file.fragment]
            if self._size(start, word) < file.offset + left:
                raise ValueError("a fragment is shorter than the end of a file in it")

    def _size(self, at: int, word: int) -> int:
        """Return how many bytes a block unpacks to."""
        known = self._sizes.get((at, word))
        if known is None:
            known = self._sizes[at, word] = self._unpacked(at, word)
        return known

    def _unpacked(self, at: int, word: int) -> int:
        size = word & ~_STORED
        if size > self._block:
            raise ValueError(f"a block of a file has {size} bytes")
        self._stream.seek(at)
        packed = self._stream.read(size)
        if len(packed) < size:
            raise EOFError("a block of a file is cut short")
        if word & _STORED:
            return size
        found = len(self._unpack(packed, self._block))
        if found > self._block:
            raise ValueError("a block of a file unpacks to too much")
        return found
