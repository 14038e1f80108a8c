"""Untrusted tar archives, read in bounded time and memory.

`tarfile` ends silently at a damaged header, reads extension headers of any size into memory, follows negative
sizes backwards, takes years to skip missing data, and recurses for each extension header. This module
prevents all of that.
"""

from __future__ import annotations

import contextlib
import re
import tarfile
from collections.abc import Iterator
from typing import IO, cast

from reprobuild.errors import BuildError
from reprobuild.infra.untrusted.decompress import UnpackedStream
from reprobuild.infra.untrusted.names import HOSTILE, MOST_MEMBERS, check_total
from reprobuild.infra.untrusted.tar_headers import parse_pax

# Errors of a damaged tar, from tarfile and the decompressors below it.
UNREADABLE = (tarfile.TarError, ValueError, KeyError, OverflowError, RecursionError, EOFError)

# Two longest paths and the longest extended attribute.
LONGEST_HEADER = 128 << 10
# CPython before 3.11.10 needs quadratic time for them: https://github.com/python/cpython/issues/121285
_DIGITS = re.compile(rb"\d{100}")
_PIECE = 1 << 20
_PAX = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)
_HEAD = 10  # bytes
# As `tarfile` tells them apart.
_PACKERS = {
    "gz": re.compile(rb"\x1f\x8b\x08"),
    "bz2": re.compile(rb"BZh.1AY&SY", re.DOTALL),
    "xz": re.compile(rb"\x5d\x00\x00\x80|\xfd7zXZ"),
}
_EXTENSIONS = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, *_PAX)


class _Again:
    """A file whose last piece can be read again."""

    def __init__(self, piece: bytes, stream: IO[bytes]) -> None:
        self._piece = piece
        self._stream = stream

    def read(self, size: int) -> bytes:
        piece, self._piece = self._piece, b""
        return piece or self._stream.read(size)

    def tell(self) -> int:
        return self._stream.tell()


class _Info(tarfile.TarInfo):
    """The header of a member. A damaged header raises an error, and does not end the tar."""

    ends_in_slash = False

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Info:
        with _raise_header_errors(buf):
            info = super().frombuf(buf, encoding, errors)
        # Older versions take it for a directory here: its type is kept for `_proc_member`.
        info.ends_in_slash = info.isdir() and bytes(buf[156:157]) == tarfile.AREGTYPE
        return info

    @classmethod
    def _frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str, **more: bool) -> _Info:
        # The method that reading calls instead in newer versions: seen in Debian's 3.11.2-6+deb12u9, not in
        # its deb12u6.
        with _raise_header_errors(buf):
            info: _Info = super()._frombuf(buf, encoding, errors, **more)  # type: ignore[misc]  # newer versions have it, the stubs do not
            return info

    def _proc_member(self, tar: CarefulTar) -> tarfile.TarInfo:
        # The entry point for subclasses, according to a comment in tarfile.py.
        if self.ends_in_slash and tar.is_described:
            # As newer versions do, so that each version reads one tree: its name is in the header before, and here
            # it can be cut at a slash. https://github.com/python/cpython/issues/141707
            self.type = tarfile.AREGTYPE
        if self.size < 0:
            raise tarfile.ReadError("a member has a negative size")
        if self.type in _EXTENSIONS and self.size > LONGEST_HEADER:
            raise tarfile.ReadError(f"a header of {self.size} bytes describes one member")
        stream, tar.is_described = tar.fileobj, self.type in _EXTENSIONS
        if self.type in _PAX and stream is not None:
            blocks = -(-self.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
            content = stream.read(blocks)
            if _DIGITS.search(content):
                raise tarfile.ReadError("a pax header holds a number of a hundred digits")
            if self.type == tarfile.XGLTYPE and set(parse_pax(content[: self.size])) - {"comment"}:
                # Each later member has them: reading would take quadratic time.
                raise tarfile.ReadError("a global header describes members")
            tar.fileobj = cast(
                "IO[bytes]", _Again(content, cast("IO[bytes]", stream))
            )  # while headers are read
        try:
            member: tarfile.TarInfo = super()._proc_member(tar)  # type: ignore[misc]  # not in the stubs
        except tarfile.HeaderError as err:
            raise tarfile.ReadError(f"a header cannot be read: {err}") from None
        finally:
            tar.fileobj = stream
        return member


class CarefulTar(tarfile.TarFile):
    """A tar with checked headers."""

    tarinfo = _Info
    is_described = False  # the last header describes the next member


@contextlib.contextmanager
def _raise_header_errors(buf: bytes | bytearray) -> Iterator[None]:
    """Raise an error for a header that would end silently.

    An empty block, and the end of the file, still end an archive.
    """
    try:
        yield
    except tarfile.HeaderError as err:
        if buf and bytes(buf).strip(b"\0"):
            raise tarfile.ReadError(f"a header cannot be read: {err}") from None
        raise


def open_stream(stream: IO[bytes], mode: str = "r|") -> tarfile.TarFile:
    """Open a tar for one reading from its beginning.

    Names that are not UTF-8 keep their bytes. The modes are those of `tarfile`, but bzip2 and xz are unpacked in
    bounded pieces.
    """
    packer = mode.removeprefix("r|")
    if packer == "*":
        head = stream.read(_HEAD)
        packer = next((name for name, mark in _PACKERS.items() if mark.match(head)), "")
        stream = cast("IO[bytes]", _Again(head, stream))
    if packer in ("bz2", "xz"):
        stream, packer = cast("IO[bytes]", UnpackedStream(stream, packer)), ""
    mode = f"r|{packer}"
    tar: tarfile.TarFile = CarefulTar.open(  # type: ignore[call-overload]  # the stubs list literal modes
        fileobj=stream, mode=mode, encoding="utf-8", errors="surrogateescape"
    )
    return tar


def members(tar: tarfile.TarFile, origin: str, *, packed: int | None = None) -> Iterator[tarfile.TarInfo]:
    """Yield the members of a tar opened as `CarefulTar`.

    Their names are not checked here.

    Args:
        tar: an open tar.
        origin: the tar's name for the user.
        packed: bytes of the compressed archive, if there is one: a bound for the unpacked size.

    Raises:
        BuildError: it has too many members, unpacks to too much, or holds a sparse file.
        tarfile.TarError, and the others of `UNREADABLE`: it is damaged.
    """
    count, total, end = 0, 0, 0
    while (info := tar.next()) is not None:
        count += 1
        total += max(info.size, 0)
        if info.size < 0 or info.offset < end:  # a pax header may state the size again
            raise tarfile.ReadError(f"{info.name!r} has a negative size")
        end = info.offset_data
        if count > MOST_MEMBERS:
            raise BuildError(f"{origin} holds more than {MOST_MEMBERS} members", hint=HOSTILE)
        if packed is not None:
            check_total(max(total, info.offset_data), packed, origin)  # headers count, too
        if info.issparse():
            raise BuildError(f"{origin} holds {info.name!r}, a sparse file", hint=HOSTILE)
        tar.members.clear()  # type: ignore[attr-defined]  # or each header stays in memory
        yield info
        _skip(tar)


def _skip(tar: tarfile.TarFile) -> None:
    """Read to the next header, and detect a missing rest.

    `tarfile` would take as many steps as the size requires, even after the end.
    """
    stream = tar.fileobj
    if hasattr(stream, "seekable"):  # a file: it seeks, and finds the end
        return
    while (rest := tar.offset - stream.tell()) > 0:
        if not stream.read(min(rest, _PIECE)):
            raise tarfile.ReadError("unexpected end of data")
