"""Checks of the file blocks of a squashfs.

They refuse blocks that `sqfs2tar` can read, and the kernel cannot.
"""

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
    """The location of a file's bytes in a squashfs.

    It has the first block, the size, the fragment, and the compressed size of each block.
    """

    start: int
    size: int
    fragment: int
    offset: int
    blocks: tuple[int, ...]


class Data:
    """The blocks and fragments of files; files can share them."""

    def __init__(self, stream: IO[bytes], block: int, fragments: Rows, unpack: Unpack, packed: int) -> None:
        if not _SMALLEST <= block <= _LARGEST or block & (block - 1):
            raise ValueError(f"its blocks have {block} bytes")
        self._stream, self._block, self._fragments, self._unpack = stream, block, fragments, unpack
        self._sizes: dict[tuple[int, int], int] = {}
        self._allowance = Allowance(packed)

    def count(self, size: int, fragment: int) -> int:
        """Return the number of a file's blocks, without its fragment.

        Raises:
            BuildError: all files together unpack to too much.
        """
        self._allowance.take_bytes(size, "a file")
        return size // self._block if fragment != NO_FRAGMENT else -(-size // self._block)

    def check(self, file: Content) -> None:
        """Refuse a file with a block of a wrong size.

        Raises:
            ValueError: a block is too short or too long, or has more than one frame.
        """
        at, rest = file.start, file.size
        for word in file.blocks:
            size = word & ~_STORED
            if word and self._size(at, word) != min(self._block, rest):
                raise ValueError("a block of a file has another size than its place needs")
            at += size
            rest -= min(self._block, rest)
        if file.fragment != NO_FRAGMENT and rest:
            start, word, _ = self._fragments[file.fragment]
            if self._size(start, word) < file.offset + rest:
                raise ValueError("a fragment is shorter than the end of a file in it")

    def _size(self, at: int, word: int) -> int:
        """Return the uncompressed size of a block, in bytes."""
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
        length = len(self._unpack(packed, self._block))
        if length > self._block:
            raise ValueError("a block of a file unpacks to too much")
        return length
