"""Compressed blocks of a squashfs, and its metadata tables.

Each block is one stream of its compressor, and metadata are blocks of 8 KiB.
https://dr-emann.github.io/squashfs/squashfs.html has the format. `sqfs2tar` reads all frames of a zstd block,
and the kernel only the first one, so bytes after the first stream are refused. The kernel has one window of
the size of a block, and its xz has neither CRC64 nor a delta filter (linux/fs/squashfs, linux/lib/xz); a
stream that needs more is refused.
"""

from __future__ import annotations

import lzma
import struct
import zlib
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import IO

import zstandard

from reprobuild.image.formats.squashfs_xz import check_xz

METADATA = 8192  # bytes of an uncompressed block of metadata
DAMAGE = (struct.error, zlib.error, lzma.LZMAError, zstandard.ZstdError, EOFError, OverflowError, OSError)
_STORED = 0x8000
_CACHED = 2048
_MEMORY = 256 << 20  # of xz
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"  # a skippable frame has another one
_ZSTD_BLOCK = 3  # bytes of the header of one of its own blocks
_REPEATED = 1  # the type of such a block that has one byte
_CHECKSUM = 4

Unpack = Callable[[bytes, int], bytes]


def make_unpacker(number: int, window: int) -> Unpack:
    """Return the function that decompresses a block.

    Its result has at most so many bytes as requested and one more.

    Args:
        number: of the compressor in the superblock.
        window: the largest distance of a reference, in bytes: the kernel keeps no more.

    Raises:
        ValueError: it is not gzip, xz or zstd.
    """
    if number not in _UNPACKERS:
        raise ValueError("it is packed by another program than gzip, xz or zstd, which are read here")
    return partial(_UNPACKERS[number], window=max(window, METADATA))


def _unzstd(packed: bytes, most: int, *, window: int) -> bytes:
    if not packed.startswith(_ZSTD_MAGIC):
        raise ValueError("a packed block is no frame of zstd")
    if _frame_size(packed) != len(packed):
        raise ValueError("a packed block has more than one frame")
    parameters = zstandard.get_frame_parameters(packed)
    if parameters.dict_id or parameters.window_size > window:
        raise ValueError("a packed block needs a dictionary or a larger window than the kernel has")
    # A frame may state any size, and `decompress` would allocate it at once.
    with zstandard.ZstdDecompressor(max_window_size=window).stream_reader(packed) as stream:
        return stream.read(most + 1)


def _frame_size(packed: bytes) -> int:
    """Return the size of the first zstd frame, in bytes.

    https://www.rfc-editor.org/rfc/rfc8878#section-3.1.1
    """
    parameters = zstandard.get_frame_parameters(packed)
    at, last = zstandard.frame_header_size(packed), False
    while not last:
        head = int.from_bytes(packed[at : at + _ZSTD_BLOCK], "little")
        if at + _ZSTD_BLOCK > len(packed):
            raise EOFError("a frame is cut short")
        last = bool(head & 1)
        at += _ZSTD_BLOCK + (1 if head >> 1 & 3 == _REPEATED else head >> 3)
    return at + _CHECKSUM * parameters.has_checksum


def _gunzip(packed: bytes, most: int, *, window: int) -> bytes:  # deflate refers 32 KiB back at most
    return _decompress_stream(zlib.decompressobj(), packed, most)


def _unxz(packed: bytes, most: int, *, window: int) -> bytes:
    stream = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY)
    content = _decompress_stream(stream, packed, most)
    if stream.check not in (lzma.CHECK_NONE, lzma.CHECK_CRC32):
        raise ValueError("a packed block has a check that the kernel does not know")
    check_xz(packed, window)
    return content


def _decompress_stream(stream: zlib._Decompress | lzma.LZMADecompressor, packed: bytes, most: int) -> bytes:
    content = stream.decompress(packed, most + 1)
    if stream.unused_data:
        raise ValueError("a packed block has more than one stream")
    return content


_UNPACKERS: Mapping[int, Callable[..., bytes]] = {1: _gunzip, 4: _unxz, 6: _unzstd}


class MetadataTable:
    """A table of metadata: blocks of 8 KiB, compressed singly.

    A position is (block, offset in it).
    """

    def __init__(self, stream: IO[bytes], start: int, unpack: Unpack) -> None:
        self._stream, self._start, self._unpack = stream, start, unpack
        self._read_block = lru_cache(_CACHED)(self._read_at)

    def _read_at(self, block: int) -> tuple[bytes, int]:
        """Return an uncompressed block, and the start of the next.

        `block` is the offset from the table's start.
        """
        self._stream.seek(self._start + block)
        (header,) = struct.unpack("<H", self._stream.read(2))
        packed = self._stream.read(header & (_STORED - 1))
        content = packed if header & _STORED else self._unpack(packed, METADATA)
        if len(content) > METADATA:
            raise ValueError("a block of metadata is too long")
        return content, block + 2 + (header & (_STORED - 1))

    def read(self, block: int, offset: int, size: int) -> bytes:
        """Return the bytes at an offset from a block's start."""
        pieces = []
        block, offset = self.after(block, offset)
        while size:
            content, following = self._read_block(block)
            piece = content[offset : offset + size]
            pieces.append(piece)
            size -= len(piece)
            if size and len(content) < METADATA:  # the last one; the kernel requires all others to be full
                raise ValueError("a table of metadata ends early")
            block, offset = following, 0
        return b"".join(pieces)

    def after(self, block: int, offset: int) -> tuple[int, int]:
        """Return the block and inner offset of a position.

        The position is an offset from the start of a block.
        """
        while offset >= METADATA:
            content, following = self._read_block(block)
            if len(content) < METADATA:
                raise ValueError("a table of metadata ends early")
            block, offset = following, offset - METADATA
        return block, offset


class Rows:
    """A table of rows of one size.

    A list has the positions of its blocks in the file.
    """

    def __init__(self, stream: IO[bytes], at: int, count: int, row: struct.Struct, unpack: Unpack) -> None:
        self._stream, self._at, self._count, self._row = stream, at, count, row
        self._blocks = MetadataTable(stream, 0, unpack)
        self._each = METADATA // row.size

    def __getitem__(self, index: int) -> tuple[int, ...]:
        """Return a row.

        Raises:
            ValueError: the table has no row with this number.
        """
        if not 0 <= index < self._count:
            raise ValueError(f"a table of {self._count} rows has no row {index}")
        self._stream.seek(self._at + index // self._each * 8)
        (block,) = struct.unpack("<Q", self._stream.read(8))
        return self._row.unpack(self._blocks.read(block, index % self._each * self._row.size, self._row.size))
