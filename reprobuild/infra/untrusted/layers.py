"""Layers of images, read as by every engine, or refused.

Python's `tarfile` and Go's `archive/tar`, which Docker, Podman and containerd use, read some headers as
different members: one tree digest would then stand for two images. A header is refused here unless both read
the same from it. https://pubs.opengroup.org/onlinepubs/9699919799/utilities/pax.html,
https://pkg.go.dev/archive/tar
"""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterator
from typing import IO, cast

from reprobuild.errors import BuildError
from reprobuild.infra.untrusted.budget import Allowance
from reprobuild.infra.untrusted.names import HOSTILE, LONGEST_PATH, MOST_MEMBERS, check_target
from reprobuild.infra.untrusted.tar_headers import BLOCK, Header, Pax, parse_header, parse_pax, parse_text
from reprobuild.infra.untrusted.tars import LONGEST_HEADER

_PIECE = 1 << 20
_BUFFER = 1 << 18
_KINDS = frozenset(b"0123456\0")
_SPARSE = "GNU.sparse."
_XATTR = "SCHILY.xattr."
# Own attributes of overlayfs, fuse-overlayfs and Podman in a layer's directory: a member could make a
# directory opaque, redirect it, or state another mode and owner.
_OVERLAY = tuple(
    f"{_XATTR}{name}."
    for name in (
        "trusted.overlay", "user.overlay", "user.fuseoverlayfs", "security.fuseoverlayfs", "trusted.fuseoverlayfs",
        "user.containers",
    )
)  # fmt: skip
# Engines set them on directories while they unpack: files added later get other permissions than their
# headers state.
_ACL = f"{_XATTR}system.posix_acl_"
_ATTRIBUTE = 200  # bytes of Python's objects for the shortest
# Names of AUFS: containerd and moby skip `.wh..wh.*` at the root, and find hard links into `.wh..wh.plnk`
# elsewhere.
_AUFS = ".wh..wh."
_OPAQUE = ".wh..wh..opq"
# Kernel overlays and fuse-overlayfs differ on the files that a directory with such a name hides.
_WHITEOUT = ".wh."
_NO_WHITEOUTS = frozenset((".wh.", ".wh..", ".wh..."))  # of "", "." and ".."
# A leading slash, `./`, and a trailing slash are not part of the path.
_LONGEST_NAME = LONGEST_PATH + 4
_EXTENSIONS = {tarfile.XHDTYPE: "pax", tarfile.GNUTYPE_LONGNAME: "name", tarfile.GNUTYPE_LONGLINK: "link"}


class _Raw(io.RawIOBase):
    """A stream with only `read`, for `io.BufferedReader`."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # the buffer of BufferedReader
        piece = self._stream.read(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)


class _Content:
    """The content of one member, read before the next member."""

    def __init__(self, source: _Source, size: int) -> None:
        self._source = source
        self.left = size

    def read(self, size: int = -1) -> bytes:
        piece = self._source.exactly(self.left if size < 0 else min(size, self.left))
        self.left -= len(piece)
        return piece


class _Source:
    """A tar from its beginning; files are seeked, streams read."""

    def __init__(self, stream: IO[bytes]) -> None:
        # A compressed stream can seek, by unpacking everything before the offset; its own source may not be
        # able to.
        packed = isinstance(stream, gzip.GzipFile)
        self._seeks = not packed and hasattr(stream, "seekable") and stream.seekable()
        self._end = stream.seek(0, io.SEEK_END) if self._seeks else 0
        if self._seeks:
            stream.seek(0)
        self._stream = stream if self._seeks else cast("IO[bytes]", io.BufferedReader(_Raw(stream), _BUFFER))
        self.place = 0

    def block(self) -> bytes:
        """Return the next block, shorter at the tar's end."""
        data = self._stream.read(BLOCK)
        self.place += len(data)
        return data

    def exactly(self, size: int) -> bytes:
        data = self._stream.read(size)
        self.place += len(data)
        if len(data) < size:
            raise tarfile.ReadError("unexpected end of data")
        return data

    def skip(self, size: int) -> None:
        if self._seeks:
            self.place += size
            if self.place > self._end:
                raise tarfile.ReadError("unexpected end of data")
            self._stream.seek(self.place)
            return
        while size:
            size -= len(self.exactly(min(size, _PIECE)))


def layer_members(
    stream: IO[bytes], origin: str, allowance: Allowance | None = None
) -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
    """Yield each member of a layer with its content.

    The content of a file must be read before the next member is taken.

    Args:
        stream: the uncompressed tar; a seekable file is read from its beginning.
        origin: the layer's name for the user.
        allowance: of the image; without it the layer has one of its own.

    Raises:
        BuildError: it holds too much, or a sparse file.
        tarfile.TarError: it is damaged, or readers of tar would disagree on its contents.
    """
    source, spent, count = _Source(stream), allowance or Allowance(), 0
    while (info := _next_member(source, origin)) is not None:
        count += 1
        if count > MOST_MEMBERS:
            raise BuildError(f"{origin} holds more than {MOST_MEMBERS} members", hint=HOSTILE)
        spent.take_member(_text_of(info), origin)
        size = info.size if info.isreg() else 0
        content = _Content(source, size)
        yield info, cast("IO[bytes]", content) if info.isreg() else None
        source.skip(content.left + -size % BLOCK)


def _text_of(info: tarfile.TarInfo) -> int:
    """Return the size of a member's kept text.

    For attributes it is their size in memory.
    """
    attributes = sum(
        _ATTRIBUTE + len(k) + len(v) for k, v in info.pax_headers.items() if k.startswith(_XATTR)
    )
    return len(info.name) + len(info.linkname) + attributes


def _next_member(source: _Source, origin: str) -> tarfile.TarInfo | None:
    """Return the next member without content, or None.

    None means the end of the tar.
    """
    extensions: dict[str, bytes] = {}
    is_global = False
    while block := source.block():
        if len(block) < BLOCK:
            raise tarfile.ReadError("a header cannot be read: truncated header")
        if not block.strip(b"\0"):
            _check_end(source, extensions)
            return None
        start = source.place == BLOCK
        header = parse_header(block)
        if header.kind == tarfile.XGLTYPE:
            _check_global(header, _extension(source, header), start)
            is_global = True
        elif (kind := _EXTENSIONS.get(header.kind)) is None:
            return _member(header, extensions, origin, source.place, extended=is_global or bool(extensions))
        elif kind in extensions:
            raise tarfile.ReadError(f"two headers state the {kind} of one member")
        else:
            extensions[kind] = _extension(source, header)
    _check_end(source, extensions)
    return None


def _check_end(source: _Source, extensions: dict[str, bytes]) -> None:
    if extensions:
        raise tarfile.ReadError("a header describes a member that is missing")
    if not source.place:
        raise tarfile.ReadError("empty file")
    block = source.block()
    if block.strip(b"\0") or len(block) not in (0, BLOCK):
        raise tarfile.ReadError("one block of zeros stands before more members")


def _check_global(header: Header, content: bytes, start: bool) -> None:
    """Allow the global header of `git archive`, and refuse others.

    Engines ignore any other global header, or take it for a member.
    """
    if not start or header.name != b"pax_global_header" or set(parse_pax(content)) - {"comment"}:
        raise tarfile.ReadError("a global header describes members, which engines do not read")


def _extension(source: _Source, header: Header) -> bytes:
    """Return the content of a header that describes another."""
    if header.size > LONGEST_HEADER:
        raise tarfile.ReadError(f"a header of {header.size} bytes describes one member")
    content = source.exactly(header.size)
    if source.exactly(-header.size % BLOCK).strip(b"\0"):
        raise tarfile.ReadError("a header goes on behind its end")
    return content


def _member(
    header: Header, extensions: dict[str, bytes], origin: str, place: int, *, extended: bool
) -> tarfile.TarInfo:
    pax = parse_pax(extensions["pax"]) if "pax" in extensions else Pax()
    name = _choose_text(header.name, "path", "name", pax, extensions)
    link = _choose_text(header.link, "linkpath", "link", pax, extensions)
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.pax_headers = header.kind, link, pax
    if header.kind == tarfile.GNUTYPE_SPARSE or any(key.startswith(_SPARSE) for key in pax):
        raise BuildError(f"{origin} holds {name!r}, a sparse file", hint=HOSTILE)
    if header.kind[0] not in _KINDS:
        raise tarfile.ReadError(f"{name!r} is of the tar type {header.kind!r}, which a layer cannot hold")
    if len(name) > _LONGEST_NAME:
        raise BuildError(f"{origin} holds the path {name[:60]!r}... of {len(name)} bytes", hint=HOSTILE)
    if len(link) > LONGEST_PATH:
        check_target(link, name, origin)
    info.type = _kind(header, name, extended=extended)
    _check_meaning(name, pax, origin, is_folder=info.isdir())
    info.mode, info.devmajor, info.devminor = header.mode, *header.device
    if info.ischr() and header.device == (0, 0):
        raise BuildError(
            f"{origin} holds {name!r}, the character device 0:0, by which overlays delete", hint=HOSTILE
        )
    info.uid, info.gid = (pax.number(key, getattr(header, key)) for key in ("uid", "gid"))
    info.size = pax.number("size", header.size)
    info.mtime = pax.time(header.mtime)
    info.uname, info.gname = (pax.get(key) or parse_text(getattr(header, key)) for key in ("uname", "gname"))
    info.offset_data = place
    return info


def _check_meaning(name: str, pax: Pax, origin: str, *, is_folder: bool) -> None:
    """Refuse names and attributes with a special meaning.

    Whiteouts of files and opaque directories are allowed.
    """
    if ".wh." in name:
        parts = name.rstrip("/").split("/")
        last = len(parts) if is_folder else len(parts) - 1
        for number, part in enumerate(parts):
            aufs = part.startswith(_AUFS) and part != _OPAQUE
            if aufs or part in _NO_WHITEOUTS or (part.startswith(_WHITEOUT) and number < last):
                raise BuildError(
                    f"{origin} holds {name!r}, which engines take for different things", hint=HOSTILE
                )
    for key in pax:
        if key.startswith(_OVERLAY):
            raise BuildError(
                f"{origin} holds {name!r} with the attribute {key[len(_XATTR) :]!r} of overlay mounts",
                hint=HOSTILE,
            )
        if key.startswith(_ACL):
            raise BuildError(
                f"{origin} holds {name!r} with an access control list, {key[len(_XATTR) :]!r}, which engines apply to "
                "more than that member",
                hint=HOSTILE,
            )


def _choose_text(plain: bytes, key: str, kind: str, pax: Pax, extensions: dict[str, bytes]) -> str:
    """Return a text from a header, or from one extension."""
    if key in pax and kind in extensions:
        raise tarfile.ReadError(f"two headers state the {kind} of one member")
    text = pax[key] if key in pax else parse_text(extensions.get(kind, plain))
    if not text and (key in pax or kind in extensions):
        raise tarfile.ReadError(f"a header states an empty {kind}")
    return text


def _kind(header: Header, name: str, *, extended: bool) -> bytes:
    """Return the type of a member. An old tar marks a directory by a slash.

    After an extended header, Python's `tarfile` ignores that slash since https://github.com/python/cpython/issues/141707.
    """
    slash = name.endswith("/")
    if header.kind == tarfile.AREGTYPE and extended and (slash or header.name.endswith(b"/")):
        raise tarfile.ReadError(f"{name!r} is a file to some readers and a directory to others")
    if header.kind == tarfile.AREGTYPE:
        return tarfile.DIRTYPE if slash else tarfile.REGTYPE
    if header.kind == tarfile.REGTYPE and slash:
        raise tarfile.ReadError(f"{name!r} is a file to some readers and a directory to others")
    return header.kind
