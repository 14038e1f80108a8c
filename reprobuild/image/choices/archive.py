"""Archives of cached files, and the files of a cache's directory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Annotated

from msgspec import Meta, Struct

from reprobuild.errors import BuildError, UsageError
from reprobuild.image.choices.directory_count import DirectoryCount
from reprobuild.image.layering.packed import open_packed
from reprobuild.image.layers.blobs import LayerWriter
from reprobuild.infra.directory_fd import files_below
from reprobuild.infra.tar.entries import CHUNK, TarEntry
from reprobuild.infra.tar.writing import TarWriter
from reprobuild.infra.untrusted.budget import Allowance
from reprobuild.infra.untrusted.layers import layer_members
from reprobuild.infra.untrusted.names import HOSTILE, check_name
from reprobuild.infra.untrusted.regular_files import open_within
from reprobuild.infra.untrusted.strings import Sha256, Size
from reprobuild.infra.untrusted.write_below import open_below

KIND = "application/x-tar+zstd"
LARGEST = 8 << 30  # bytes of all files; the caches of the largest models have some hundred megabytes
MOST_FILES = 200_000
MOST_CHARACTERS = 32 << 20  # of all paths
_Packed = Annotated[int, Meta(ge=1, le=1 << 62)]  # 0 would mean an unknown size, without a bound
_HEADERS = 8192  # bytes that a tar needs for a file besides its content, at most


class ChoiceArchive(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The archive of a cache's files.

    `sha256` and `size` are of the compressed file, `tar` is the sha256 of the tar in it. `files` is their number, and
    `content` their size in bytes.
    """

    sha256: Sha256
    size: _Packed
    tar: Sha256
    files: Size
    content: Size


def hash_files(folder: Path, is_kept: Callable[[str], bool]) -> dict[str, str]:
    """Return the sha256 of each kept file below a directory, by its path.

    The directory is one that a container wrote: no link is followed, and only regular files count.

    Args:
        folder: the directory.
        is_kept: tells if a file of this path counts.

    Raises:
        UsageError: it has too many files, or too large ones.
    """
    hashes: dict[str, str] = {}
    total = characters = 0
    for path, _, number in files_below(folder):
        if not is_kept(path):
            continue
        characters += len(path)
        total += os.fstat(number).st_size  # before it is read: a file of terabytes need not have content
        if len(hashes) == MOST_FILES or total > LARGEST or characters > MOST_CHARACTERS:
            raise _size_error()
        with os.fdopen(os.dup(number), "rb") as stream:
            hashes[path] = _hash(stream, os.fstat(number).st_size)
    return hashes


def _size_error() -> UsageError:
    return UsageError(
        f"the caches of this run have more than {MOST_FILES} files or {LARGEST >> 30} GiB",
        hint="run without --save-choices: the cache of such a run is not one of choices alone",
    )


def _hash(stream: IO[bytes], size: int) -> str:
    """Return the sha256 of a file that has at most so many bytes."""
    digest = hashlib.sha256()
    while chunk := stream.read(CHUNK):
        size -= len(chunk)
        if size < 0:  # it grows while it is read
            raise _size_error()
        digest.update(chunk)
    return digest.hexdigest()


def pack(folder: Path, hashes: Mapping[str, str], target: Path, epoch: int) -> ChoiceArchive:
    """Write an archive of files below a directory; equal files give equal bytes.

    Args:
        folder: the directory, which no container writes to any more.
        hashes: the sha256 of each file, by its path.
        target: the archive.
        epoch: the time of each file, in seconds since 1970.

    Raises:
        BuildError: a file changed after it was hashed, or its name is not possible in an archive.
        OSError: a file cannot be read, or the archive not be written.
    """
    content = 0
    with target.open("wb") as stream, LayerWriter(stream) as sink:
        writer = TarWriter(sink, epoch)
        for path in sorted(hashes):
            check_name(path, "the cache")
            opened, size = open_within(folder, path)
            with opened:
                writer.add(TarEntry(path=path, type="file", mode=0o644, size=size), opened)
            if writer.listing[-1].sha256 != hashes[path]:
                raise BuildError(f"{path!r} changed while it was saved", hint="run the command again")
            content += size
        writer.close()
        tar, sha256, packed = sink.finish()
    return ChoiceArchive(sha256=sha256, size=packed, tar=tar, files=len(hashes), content=content)


def unpack(
    open_archive: Callable[[str], IO[bytes]], archive: ChoiceArchive, folder: Path, epoch: int, origin: str
) -> dict[str, str]:
    """Unpack an archive into an empty directory; return the sha256 of each file, by its path.

    All files get one time, so that no tool takes one for older than another.

    Args:
        open_archive: opens the file of the archive; it takes the mode.
        archive: its hashes and sizes.
        folder: an empty directory; if this fails, it may have a part of the files.
        epoch: the time of each file, in seconds since 1970.
        origin: the archive's name for the user.

    Raises:
        BuildError: it is damaged, is another archive, has more or other files than it states, or too many directories.
    """
    hashes: dict[str, str] = {}
    for name, stream in read_files(open_archive, archive, origin):
        try:
            hashes[name] = _write(stream, folder, name, epoch)
        except FileExistsError:
            raise BuildError(f"{origin} has {name!r} twice", hint=HOSTILE) from None
    return hashes


class _Bound(Allowance):
    """The bound of a tar's bytes, from what its record states."""

    def __init__(self, archive: ChoiceArchive) -> None:
        super().__init__()
        self._left = archive.content + (archive.files + 2) * _HEADERS

    def take_bytes(self, size: int, origin: str) -> None:
        """Count unpacked bytes."""
        self._left -= size
        if self._left < 0:
            raise BuildError(f"{origin} has more files than its record states", hint=HOSTILE)


def read_files(
    open_archive: Callable[[str], IO[bytes]], archive: ChoiceArchive, origin: str
) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield each file of an archive, its path and its content; then check the archive.

    Args:
        open_archive: opens the file of the archive; it takes the mode.
        archive: its hashes and sizes.
        origin: the archive's name for the user.

    Raises:
        BuildError: it is damaged, is another archive, has more or other files than it states, or too many directories.
    """
    count = content = characters = 0
    directories = DirectoryCount(origin)
    again = f"get {archive.sha256}.tar.zst again from its maker, remove it, or run with --choices off"
    bound = _Bound(archive)
    with open_packed(
        open_archive, KIND, archive.tar, origin, packed=archive.sha256, again=again, allowance=bound
    ) as stream:
        for info, opened in layer_members(stream, origin):
            if opened is None:
                raise BuildError(f"{origin} has {info.name!r}, which is no file", hint=HOSTILE)
            check_name(info.name, origin)
            directories.add(info.name)
            count, content, characters = count + 1, content + info.size, characters + len(info.name)
            if count > min(archive.files, MOST_FILES) or content > min(archive.content, LARGEST):
                raise BuildError(f"{origin} has more files than its record states", hint=HOSTILE)
            if characters > MOST_CHARACTERS:
                raise BuildError(
                    f"{origin} has more than {MOST_CHARACTERS} characters of paths", hint=HOSTILE
                )
            yield info.name, opened
    if (count, content) != (archive.files, archive.content):
        raise BuildError(f"{origin} has other files than its record states", hint=HOSTILE)


def _write(stream: IO[bytes], folder: Path, name: str, epoch: int) -> str:
    """Write a file below a directory; return its sha256."""
    digest = hashlib.sha256()
    with open_below(folder, name) as target:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
            target.write(chunk)
        target.flush()
        os.utime(target.fileno(), (epoch, epoch))
    return digest.hexdigest()
