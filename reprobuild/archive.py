"""Deterministic tar files, and listings of what is in them.

A listing is the part of a file tree that a container can see: path, type, mode, owner, link target,
extended attributes and content. Times are not in it: every time in a layer is the epoch of the lock.
"""

from __future__ import annotations

import hashlib
import io
import os
import struct
import tarfile
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Literal

import msgspec
from msgspec import Struct

from reprobuild.guard import tars
from reprobuild.guard.names import check_name, check_target

CHUNK = 1 << 20

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
# https://pubs.opengroup.org/onlinepubs/9699919799/utilities/pax.html#tag_20_92_13_06: name, mode, uid, gid, size,
# checksum, type, link, prefix.
_READ = struct.Struct("100s8s8s8s12s12x8sc100s88x155s12x")
_PLAIN = frozenset((tarfile.REGTYPE, tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE))


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
        self._write(plain_header(entry, self._epoch) or full_header(entry, self._epoch))
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


def full_header(entry: Entry, epoch: int) -> bytes:
    """Return the tar header of an entry, as the standard library writes it, pax records included."""
    info = tarfile.TarInfo(entry.path)
    info.type = _TAR_TYPES[entry.type]
    info.mode, info.uid, info.gid, info.mtime = entry.mode, entry.uid, entry.gid, epoch
    info.linkname = entry.target
    info.devmajor, info.devminor = entry.device
    info.pax_headers = {
        f"SCHILY.xattr.{name}": bytes.fromhex(value).decode("utf-8", "surrogateescape")
        for name, value in entry.xattrs
    }
    if entry.type == "file":
        info.size = entry.size
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


# Fields of POSIX.1-1988 ustar: name, mode, uid, gid, size, mtime, checksum (as spaces), type, link name,
# magic and version, names of owners, device numbers, prefix, padding.
_HEADER = struct.Struct("100s8s8s8s12s12s8sc100s8s64s8s8s155s12s")
_NUMBER = b"%07o\0"


def plain_header(entry: Entry, epoch: int) -> bytes | None:
    """Return the header that `tarfile` would write, ten times as fast, or None for what needs more care.

    Of 30 000 entries of an image, all but some hundred are files with a short ASCII name.
    """
    name, size = entry.path, entry.size
    if (
        entry.type != "file"
        or len(name) > 100
        or not name.isascii()
        or name.endswith("/")
        or entry.xattrs
        or size >= 1 << 33
        or not 0 <= epoch < 1 << 33
        or max(entry.uid, entry.gid) >= 1 << 21
    ):
        return None
    header = _HEADER.pack(
        name.encode("ascii"), _NUMBER % (entry.mode & 0o7777), _NUMBER % entry.uid, _NUMBER % entry.gid,
        b"%011o\0" % size, b"%011o\0" % epoch, b"        ", b"0", b"", b"ustar\x0000", b"", b"", b"", b"", b"",
    )  # fmt: skip
    return b"%s%06o\0%s" % (header[:148], sum(header), header[155:])


def parents(paths: Iterable[str]) -> list[str]:
    """Return every directory above the given paths, each once, sorted so that parents come first."""
    found: set[str] = set()
    for path in paths:
        above = path.rpartition("/")[0]
        while above and above not in found:
            found.add(above)
            above = above.rpartition("/")[0]
    return sorted(found)


def members(stream: IO[bytes], origin: str = "the tar") -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
    """Yield each member of a tar stream with its content, for a file, to be read before the next is taken.

    No header is kept, so memory does not grow with the number of members. `origin` is what the user knows the
    tar by.

    Raises:
        BuildError, and those of `guard.tars.UNREADABLE`: see `guard.tars.members`.
    """
    with tars.open_stream(stream) as tar:
        for info in tars.members(tar, origin):
            yield info, tar.extractfile(info) if info.isreg() else None


def read_tar(stream: IO[bytes], origin: str = "the tar") -> Iterator[tuple[Entry, Callable[[], bytes]]]:
    """Yield each entry of a tar stream, and a function that gives the content of a file.

    The function must be called before the next entry is taken. Names are normalised (`./x` is `x`).

    Raises:
        ValueError: a member is of a kind that a layer cannot hold.
        BuildError, and those of `guard.tars.UNREADABLE`: see `guard.tars.members`.
    """
    for info, opened in members(stream, origin):

        def content(opened: IO[bytes] | None = opened) -> bytes:
            return opened.read() if opened else b""

        yield entry_of(info), content


def list_tar(stream: IO[bytes], origin: str = "the tar") -> Iterator[Entry]:
    """Yield each entry of a tar stream with the hash of its content, which is read in pieces.

    `origin` is what the user knows the tar by.

    Raises:
        ValueError: a member is of a kind that a layer cannot hold.
        BuildError, and those of `guard.tars.UNREADABLE`: its name leads out, or see `guard.tars.members`.
    """
    for info, opened in members(stream, origin):
        entry = entry_of(info)
        if entry.path:
            check_name(entry.path, origin)
        if entry.type == "symlink":
            check_target(entry.target, entry.path, origin)
        yield hashed(entry, opened)


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

    Only headers are read, so the stream must be one that can seek; it stands at its beginning. Plain headers,
    which most are, are read here in a third of the time that `tarfile` takes, which reads all others.

    Raises:
        ValueError: a member is of a kind that a layer cannot hold, or its content is not in one piece.
        tarfile.TarError: it is no tar, or is cut short.
    """
    with tarfile.open(fileobj=stream, mode="r:", encoding="utf-8", errors="surrogateescape") as tar:
        tar.firstmember = None  # type: ignore[attr-defined]  # it has been read; here it is read again
        length, offset = stream.seek(0, os.SEEK_END), 0
        while offset <= length:
            stream.seek(offset)
            plain = None if tar.pax_headers else _plain(stream.read(tarfile.BLOCKSIZE))
            if plain is not None:
                yield plain, offset + tarfile.BLOCKSIZE
                offset += tarfile.BLOCKSIZE + plain.size + -plain.size % tarfile.BLOCKSIZE
                continue
            stream.seek(offset)
            tar.offset = offset
            info = tar.next()
            if info is None:
                return
            tar.members.clear()  # type: ignore[attr-defined]  # it would keep every header in memory
            if info.issparse():
                raise ValueError(f"{info.name} is a sparse file, and its content not in one piece")
            yield entry_of(info), info.offset_data
            offset = tar.offset
        raise tarfile.ReadError("unexpected end of data")


def _plain(block: bytes) -> Entry | None:
    """Return what a header says if it is a file's, a link's or a directory's that says all itself, else None."""
    if len(block) != tarfile.BLOCKSIZE or block[257:262] != b"ustar" or block[156:157] not in _PLAIN:
        return None
    name, *fields, kind, link, prefix = _READ.unpack(block)
    texts = [field.partition(b"\0")[0].strip(b" ") for field in fields]
    if not all(text.isdigit() for text in texts):
        return None
    try:
        mode, uid, gid, size, check = (int(text, 8) for text in texts)
    except ValueError:
        return None
    if check != sum(block) - sum(block[148:156]) + 8 * ord(" "):
        return None
    name, link, prefix = (text.partition(b"\0")[0] for text in (name, link, prefix))
    path = (prefix + b"/" + name if prefix else name).decode("utf-8", "surrogateescape")
    target = link.decode("utf-8", "surrogateescape")
    entry_type = _ENTRY_TYPES[kind]
    return Entry(
        path=normal(path), type=entry_type, mode=mode & 0o7777, uid=uid, gid=gid,
        size=size if entry_type == "file" else 0, target=normal(target) if entry_type == "hardlink" else target,
    )  # fmt: skip


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
