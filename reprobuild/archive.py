"""Deterministic tar files, and listings of what is in them.

A listing is the part of a file tree that a container can see: path, type, mode, owner, link target,
extended attributes and content. Times are not in it: every time in a layer is the epoch of the lock.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Literal

import msgspec
from msgspec import Struct

CHUNK = 1 << 20
LONGEST_HEADER = 1 << 20

EntryType = Literal["file", "directory", "symlink", "hardlink", "char", "block", "fifo"]


class Entry(Struct, frozen=True, kw_only=True):
    """One path of a tree. `path` has no leading slash. `sha256` is the content's, for a file.

    `target` is the text of a symbolic link, or the path of the file that a hard link repeats.
    `xattrs` are (name, hex value) pairs, sorted.
    """

    path: str
    type: EntryType
    mode: int
    uid: int = 0
    gid: int = 0
    size: int = 0
    target: str = ""
    sha256: str = ""
    device: tuple[int, int] = (0, 0)
    xattrs: tuple[tuple[str, str], ...] = ()


_TAR_TYPES: dict[EntryType, bytes] = {
    "file": tarfile.REGTYPE,
    "directory": tarfile.DIRTYPE,
    "symlink": tarfile.SYMTYPE,
    "hardlink": tarfile.LNKTYPE,
    "char": tarfile.CHRTYPE,
    "block": tarfile.BLKTYPE,
    "fifo": tarfile.FIFOTYPE,
}
_ENTRY_TYPES: dict[bytes, EntryType] = {value: key for key, value in _TAR_TYPES.items()}
_ENTRY_TYPES[tarfile.AREGTYPE] = "file"


class TarWriter:
    """Writes entries in the order given, with one time for all, and keeps their listing.

    The same entries give the same bytes on every machine: no names of owners, no clock, no locale, pax
    headers only where a path, a link or an attribute needs them. Content is copied in pieces.
    """

    def __init__(self, stream: IO[bytes], epoch: int) -> None:
        self._stream = stream
        self._epoch = epoch
        self._written = 0
        self.listing: list[Entry] = []

    def add(self, entry: Entry, content: IO[bytes] | bytes | None = None) -> None:
        """Write one entry. `content` is needed for a file; `entry.size` is its length in bytes.

        Raises:
            ValueError: the content is shorter or longer than `entry.size`.
        """
        info = tarfile.TarInfo(entry.path)
        info.type = _TAR_TYPES[entry.type]
        info.mode, info.uid, info.gid, info.mtime = entry.mode, entry.uid, entry.gid, self._epoch
        info.linkname = entry.target
        info.devmajor, info.devminor = entry.device
        info.pax_headers = {
            f"SCHILY.xattr.{name}": bytes.fromhex(value).decode("utf-8", "surrogateescape")
            for name, value in entry.xattrs
        }
        if entry.type == "file":
            info.size = entry.size
        self._write(info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape"))
        if entry.type == "file":
            entry = msgspec.structs.replace(entry, sha256=self._copy(entry, content))
        self.listing.append(entry)

    def _copy(self, entry: Entry, content: IO[bytes] | bytes | None) -> str:
        if content is None:
            raise ValueError(f"{entry.path} is a file without content")
        stream = io.BytesIO(content) if isinstance(content, bytes) else content
        digest, left = hashlib.sha256(), entry.size
        while left and (chunk := stream.read(min(CHUNK, left))):
            digest.update(chunk)
            self._write(chunk)
            left -= len(chunk)
        if left or stream.read(1):
            raise ValueError(f"{entry.path} is {'shorter' if left else 'longer'} than its {entry.size} bytes")
        self._write(bytes(-entry.size % tarfile.BLOCKSIZE))
        return digest.hexdigest()

    def _write(self, data: bytes) -> None:
        self._stream.write(data)
        self._written += len(data)

    def directory(self, path: str, mode: int = 0o755) -> None:
        """Write a directory that belongs to root."""
        self.add(Entry(path=path, type="directory", mode=mode))

    def file(self, path: str, content: bytes, mode: int = 0o644) -> None:
        """Write a file that belongs to root."""
        self.add(Entry(path=path, type="file", mode=mode, size=len(content)), content)

    def symlink(self, path: str, target: str) -> None:
        """Write a symbolic link that belongs to root."""
        self.add(Entry(path=path, type="symlink", mode=0o777, target=target))

    def close(self) -> None:
        """Write the end of the archive; the stream stays open."""
        self._write(bytes(2 * tarfile.BLOCKSIZE))
        self._write(bytes(-self._written % tarfile.RECORDSIZE))


def parents(paths: Iterable[str]) -> list[str]:
    """Return every directory above the given paths, each once, sorted so that parents come first."""
    found: set[str] = set()
    for path in paths:
        above = path.rpartition("/")[0]
        while above and above not in found:
            found.add(above)
            above = above.rpartition("/")[0]
    return sorted(found)


class Header(tarfile.TarInfo):
    """A header that fails loudly: tarfile takes a damaged header after the first one for the end.

    A pax header or a long name is read into memory, so it is bounded; sparse files are refused, since a
    header of some bytes could stand for any length of content.
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Header:
        try:
            info = super().frombuf(buf, encoding, errors)
        except (tarfile.InvalidHeaderError, tarfile.TruncatedHeaderError) as err:  # type: ignore[attr-defined]
            raise tarfile.ReadError(f"not a tar, or damaged: {err}") from None
        if info.type in _NO_MEMBERS and info.size > LONGEST_HEADER:
            raise tarfile.ReadError(f"a header of {info.size} bytes")
        return info


_NO_MEMBERS = (
    tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK,
)  # fmt: skip


def members(stream: IO[bytes]) -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
    """Yield each member of a tar stream with its content, for a file, to be read before the next is taken.

    No header is kept, so memory does not grow with the number of members.

    Raises:
        tarfile.TarError: it is no tar, or is damaged or cut short.
        ValueError: a member is sparse.
    """
    with tarfile.open(
        fileobj=stream, mode="r|", encoding="utf-8", errors="surrogateescape", tarinfo=Header
    ) as tar:
        while (info := tar.next()) is not None:
            if info.issparse():
                raise ValueError(f"{info.name} is a sparse file, which a layer cannot hold")
            yield info, tar.extractfile(info) if info.isreg() else None
            tar.members.clear()  # type: ignore[attr-defined]


def read_tar(stream: IO[bytes]) -> Iterator[tuple[Entry, Callable[[], bytes]]]:
    """Yield each entry of a tar stream, and a function that gives the content of a file.

    The function must be called before the next entry is taken. Names are normalised (`./x` is `x`).

    Raises:
        ValueError: a member is of a kind that a layer cannot hold.
    """
    for info, opened in members(stream):

        def content(opened: IO[bytes] | None = opened) -> bytes:
            return opened.read() if opened else b""

        yield entry_of(info), content


def list_tar(stream: IO[bytes]) -> Iterator[Entry]:
    """Yield each entry of a tar stream with the hash of its content, which is read in pieces.

    Raises:
        ValueError: a member is of a kind that a layer cannot hold.
    """
    for info, opened in members(stream):
        yield hashed(entry_of(info), opened)


def hashed(entry: Entry, content: IO[bytes] | None) -> Entry:
    """Return the entry of a file with the sha256 of its content, which is read in pieces."""
    if entry.type != "file" or content is None:
        return entry
    digest = hashlib.sha256()
    while chunk := content.read(CHUNK):
        digest.update(chunk)
    return msgspec.structs.replace(entry, sha256=digest.hexdigest())


def index_tar(stream: IO[bytes]) -> Iterator[tuple[Entry, int]]:
    """Yield each entry of a tar file, without the content's hash, and where its content begins in the file.

    Only headers are read, so the stream must be one that can seek.

    Raises:
        ValueError: a member is of a kind that a layer cannot hold, or its content is not in one piece.
    """
    with tarfile.open(fileobj=stream, mode="r:", encoding="utf-8", errors="surrogateescape") as tar:
        while (info := tar.next()) is not None:
            tar.members.clear()  # type: ignore[attr-defined]  # it would keep every header in memory
            if info.issparse():
                raise ValueError(f"{info.name} is a sparse file, and its content not in one piece")
            yield entry_of(info), info.offset_data


def entry_of(info: tarfile.TarInfo) -> Entry:
    """Return what a tar header says, without the content's hash.

    Raises:
        ValueError: the member is of a kind that a layer cannot hold (a GNU sparse file, a volume label).
    """
    kind = _ENTRY_TYPES.get(info.type)
    if kind is None:
        raise ValueError(f"{info.name} is of the tar type {info.type!r}, which a layer cannot hold")
    return Entry(
        path=normal(info.name),
        type=kind,
        mode=info.mode & 0o7777,
        uid=info.uid,
        gid=info.gid,
        size=info.size if kind == "file" else 0,
        target=normal(info.linkname) if kind == "hardlink" else info.linkname,
        device=(info.devmajor, info.devminor) if kind in ("char", "block") else (0, 0),
        xattrs=_xattrs(info),
    )


def _xattrs(info: tarfile.TarInfo) -> tuple[tuple[str, str], ...]:
    prefix = "SCHILY.xattr."
    return tuple(
        sorted(
            (key[len(prefix) :], value.encode("utf-8", "surrogateescape").hex())
            for key, value in info.pax_headers.items()
            if key.startswith(prefix)
        )
    )


def normal(path: str) -> str:
    """Return a member name without leading `./` or `/` and without a trailing slash."""
    while path.startswith(("./", "/")):
        path = path[2:] if path.startswith("./") else path[1:]
    return "" if path == "." else path.rstrip("/")
