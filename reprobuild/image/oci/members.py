"""The files of an image, in directory or tar.

The tar is read in place; names map to bytes, without unpacking.
"""

from __future__ import annotations

import contextlib
import gzip
import posixpath
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from tarfile import TarInfo
from typing import IO, Protocol, cast

import zstandard

from reprobuild.errors import BuildError
from reprobuild.infra.tar.entries import CHUNK
from reprobuild.infra.untrusted import tars
from reprobuild.infra.untrusted.layers import layer_members
from reprobuild.infra.untrusted.names import check_total
from reprobuild.infra.untrusted.strings import RelativePath, is_valid
from reprobuild_portable.hashing import LARGEST_OWN_HOLE, hash_stream, is_huge_hole

NO_SPACE = "make room, or let TMPDIR name a directory with room for what differs and for packed archives"
CUT_SHORT = "the file is damaged or cut short; export or copy the image again"
DAMAGED = (OSError, zlib.error, zstandard.ZstdError, *tars.UNREADABLE)
# Links in an archive that lead to links; `docker save` makes one.
MOST_LINKS = 8
MOST_DEEP = 32  # parts of a name; images need three


@contextlib.contextmanager
def open_scratch_file(path: Path) -> Iterator[Callable[[bytes], object]]:
    """Yield a function that writes to a new scratch file.

    Its errors are distinct from those of a source that is read meanwhile.

    Raises:
        BuildError: the file cannot be written, for example without space.
    """

    def write(data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[stream.write(rest) :]  # a raw file may take less than all
        except OSError as err:
            raise BuildError(f"{path} cannot be written: {err.strerror}", hint=NO_SPACE) from None

    try:
        stream = path.open("wb", buffering=0)
    except OSError as err:
        raise BuildError(f"{path} cannot be written: {err.strerror}", hint=NO_SPACE) from None
    with stream:
        yield write


class ImageFiles(Protocol):
    """The files of an image by name, as "index.json"."""

    def has(self, name: str) -> bool:
        """Return whether there is a file with that name."""
        ...

    def place(self, name: str) -> tuple[int, int] | None:
        """Return a pair that identifies a file's bytes, or None.

        Names of the same bytes share it; None means that there is no such file.
        """
        ...

    def size(self, name: str) -> int:
        """Return the size of a file, in bytes.

        Raises:
            OSError: there is no such file.
        """
        ...

    def open(self, name: str) -> contextlib.AbstractContextManager[IO[bytes]]:
        """Open a file's bytes at the beginning.

        Raises:
            OSError: there is no such file.
        """
        ...


class DirectoryFiles:
    """The files of a directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def has(self, name: str) -> bool:
        return is_valid(name, RelativePath) and (self._folder / name).is_file()

    def place(self, name: str) -> tuple[int, int] | None:
        if not self.has(name):
            return None
        facts = (self._folder / name).stat()
        return facts.st_dev, facts.st_ino

    def size(self, name: str) -> int:
        return (self._folder / name).stat().st_size

    @contextlib.contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        if not self.has(name):  # a named pipe would block forever
            raise FileNotFoundError(f"{name} is missing")
        with (self._folder / name).open("rb") as stream:
            yield stream


class StreamPart:
    """A reader of the next `size` bytes of a stream."""

    def __init__(self, stream: IO[bytes], size: int) -> None:
        self._stream = stream
        self._left = size

    def read(self, size: int = -1) -> bytes:
        chunk = self._stream.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(chunk)
        return chunk


class TarMembers:
    """The members of an uncompressed tar, by name.

    Links between members are followed, and no others. Programs that unpack it must see the same files: a name
    is in it once, and leads through no link.

    Raises:
        BuildError, and those of `untrusted.tars.UNREADABLE`: see `untrusted.layers.layer_members`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._places: dict[str, tuple[int, int]] = {}
        self._links: dict[str, str] = {}
        folders = set()
        with path.open("rb") as stream:
            for info, _ in layer_members(stream, str(path)):
                name = _normalise_name(info.name)
                if info.isdir():
                    folders.add(name)
                elif name in self._links or (name in self._places and not self._is_again(info)):
                    raise ValueError(f"it holds {name[:100]!r} twice")
                elif info.isreg():
                    self._places.setdefault(name, (info.offset_data, info.size))
                elif info.issym():
                    target = posixpath.join(posixpath.dirname(name), info.linkname)
                    self._links[name] = posixpath.normpath(target)
                elif info.islnk():
                    self._links[name] = _normalise_name(info.linkname)
        self._check_folders(folders)

    def _is_again(self, info: TarInfo) -> bool:
        """Return whether a member repeats the file of its name.

        Some builders write equal layers twice.
        """
        offset, size = self._places[_normalise_name(info.name)]
        return (
            info.isreg()
            and info.size == size
            and self._digest(offset, size) == self._digest(info.offset_data, size)
        )

    def _digest(self, offset: int, size: int) -> str:
        with self._path.open("rb") as stream:
            stream.seek(offset)
            return hash_stream(StreamPart(stream, size))

    def _check_folders(self, folders: set[str]) -> None:
        """Refuse a name used as directory and as file.

        A name is also refused if a parent is a file or a link.
        """
        for name in (*folders, *self._places, *self._links):
            above = name if name in folders else posixpath.dirname(name)
            while above:
                if above in self._places or above in self._links:
                    raise ValueError(f"it holds {above[:100]!r} as a directory, and as a file or a link")
                above = posixpath.dirname(above)

    def place(self, name: str) -> tuple[int, int] | None:
        for _ in range(MOST_LINKS):
            if name in self._places:
                return self._places[name]
            name = self._links.get(name, "")
        return None

    def has(self, name: str) -> bool:
        return self.place(name) is not None

    def size(self, name: str) -> int:
        place = self.place(name)
        if place is None:
            raise FileNotFoundError(f"{name} is missing")
        return place[1]

    @contextlib.contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        place = self.place(name)
        if place is None:
            raise FileNotFoundError(f"{name} is missing")
        with self._path.open("rb") as stream:
            stream.seek(place[0])
            yield cast("IO[bytes]", StreamPart(stream, place[1]))


def _normalise_name(name: str) -> str:
    """Return the unambiguous path of a member.

    Raises:
        ValueError: it leads out (some programs follow it, some cut and some refuse it), or it is too deep.
    """
    parts = name.split("/")
    if len(parts) > MOST_DEEP:
        raise ValueError(f"the name {name[:100]!r} has more than {MOST_DEEP} parts")
    if name.startswith("/") or ".." in parts:
        raise ValueError(f"the name {name[:100]!r} leads out of it")
    return posixpath.normpath(name)


def decompress_stream(stream: IO[bytes], start: bytes) -> tuple[IO[bytes], str]:
    """Return a stream's uncompressed bytes, and its compression.

    `start` is its beginning, and decides, as in engines: the media type is only a claim, and `docker save`
    has none.
    """
    if start.startswith(b"\x28\xb5\x2f\xfd"):
        reader = zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True)
        return cast("IO[bytes]", reader), "zstd"
    if start.startswith(b"\x1f\x8b"):
        return cast("IO[bytes]", gzip.GzipFile(fileobj=stream)), "gzip"
    return stream, "none"


@contextlib.contextmanager
def open_bounded_file(target: Path, path: Path) -> Iterator[Callable[[bytes], object]]:
    """Yield a function that writes a bounded number of bytes.

    The bytes are those of `path`, unpacked into a scratch file; a small file may hold very many bytes.

    Raises:
        BuildError: they are more than `untrusted.names.most_bytes`, or than the free space of the disk.
    """
    packed, total = path.stat().st_size, 0
    with open_scratch_file(target) as write:
        room = shutil.disk_usage(target.parent).free

        def take(chunk: bytes) -> None:
            nonlocal total
            total += len(chunk)
            check_total(total, packed, str(path))
            if total > room:
                raise BuildError(f"{path} has more bytes than {target.parent} has room for", hint=NO_SPACE)
            write(chunk)

        yield take


def open_archive(path: Path, scratch: Path) -> TarMembers:
    """Return the members of a tar file.

    A file compressed with gzip or zstd is unpacked into `scratch` first.

    Raises:
        BuildError: it is not a tar, or is damaged.
    """
    unpacked = path
    try:
        if is_huge_hole(path.stat(), LARGEST_OWN_HOLE):
            raise BuildError(f"{path} is no tar of an image: it is a hole", hint=CUT_SHORT)
        with path.open("rb") as stream:
            start = stream.read(4)
            stream.seek(0)
            content, packing = decompress_stream(stream, start)
            if packing != "none":
                unpacked = scratch / "archive.tar"
                with open_bounded_file(unpacked, path) as write:
                    while chunk := content.read(CHUNK):
                        write(chunk)
        return TarMembers(unpacked)
    except DAMAGED as err:
        raise BuildError(f"{path} is no tar of an image: {err}", hint=CUT_SHORT) from None
