"""Files packed by bzip2 or xz, unpacked in bounded pieces.

`tarfile` unpacks 10 KiB of a stream at once: these may be gigabytes.
"""

from __future__ import annotations

import bz2
import lzma
import tarfile
from collections.abc import Callable
from typing import IO

_PIECE = 10 << 10
_MEMORY = 256 << 20  # bytes; `xz -9` needs 65 MB
_Decompressor = bz2.BZ2Decompressor | lzma.LZMADecompressor
_DECOMPRESSORS: dict[str, Callable[[], _Decompressor]] = {
    "bz2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(memlimit=_MEMORY),
}


class UnpackedStream:
    """The plain content of a packed stream, to be read once."""

    def __init__(self, stream: IO[bytes], kind: str) -> None:
        self._stream = stream
        self._start = _DECOMPRESSORS[kind]
        self._decompressor = self._start()
        self._later = False  # whether a first stream has ended

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes; none at the end.

        Other bytes behind a complete stream do not count, as in `bz2` and `lzma`.

        Raises:
            tarfile.ReadError: it is damaged, ends too early, or needs too much memory.
        """
        plain = b""
        while not plain:
            packed = b""
            if self._decompressor.eof:
                packed = self._next()
                if not packed:
                    break
            elif self._decompressor.needs_input:
                packed = self._stream.read(_PIECE)
                if not packed:
                    raise tarfile.ReadError("unexpected end of data")
            try:
                plain = self._decompressor.decompress(packed, size)
            except (OSError, lzma.LZMAError) as err:
                if not self._later:
                    raise tarfile.ReadError(f"invalid compressed data: {err}") from None
                break
        return plain

    def _next(self) -> bytes:
        """Begin another stream, and return its first bytes; none at the end of the file."""
        rest = self._decompressor.unused_data.lstrip(b"\0")
        while not rest and (piece := self._stream.read(_PIECE)):
            rest = piece.lstrip(b"\0")
        if rest:
            self._decompressor, self._later = self._start(), True
        return rest
