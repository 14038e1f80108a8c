"""Files that a container wrote, read or moved.

They are read from its tar, or moved into a directory of this machine. They may be gigabytes, and are
untrusted: only regular files are taken, links are not followed, and a name that leads out of the directory,
or is not printable, is refused.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from reprobuild.errors import BuildError, EngineError
from reprobuild.infra.directory_fd import files_below
from reprobuild.infra.untrusted.tars import UNREADABLE
from reprobuild.infra.untrusted.write_below import move_below, open_below

CHUNK = 1 << 20
LARGEST = 256 << 20  # bytes of all files that are read into memory; lists of a capture have some megabytes
_ROOM = "free space there, or let TMPDIR name a directory with more room"
_PLAIN = "let the command write plain files, in few directories"
_STRANGE = "let the command write it under a plain name"


class Pieces:
    """A file object over an answer's pieces, read once."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._rest = b""

    def read(self, size: int) -> bytes:
        """Return exactly `size` bytes, fewer only at the end."""
        pieces = [self._rest]
        length = len(self._rest)
        while length < size and (piece := next(self._pieces, None)) is not None:
            pieces.append(piece)
            length += len(piece)
        data = b"".join(pieces)
        self._rest = data[size:]
        return data[:size]


def keep_tar(stream: IO[bytes], folder: Path) -> None:
    """Write the regular files of a tar below a directory.

    The tar is read once from its start to its end. Names lose the first part, that of the directory they were
    read from.

    Raises:
        EngineError: a name is unsafe, the tar is damaged, or the directory cannot take a file.
    """
    try:
        with tarfile.open(fileobj=stream, mode="r|") as tar:
            for info in tar:
                opened = tar.extractfile(info) if info.isreg() else None
                if opened:
                    _check_free_space(info.size, folder)
                    name = info.name.partition("/")[2]
                    with _convert_errors(folder, name), open_below(folder, name) as target:
                        shutil.copyfileobj(opened, target, CHUNK)
    except UNREADABLE as err:
        raise _damage_error(err) from None


def keep_directory(source: Path, folder: Path) -> None:
    """Move the regular files of a directory into another directory.

    The two may be on different file systems.

    Raises:
        EngineError: a name is unsafe, the directories are too deep, or the directory cannot take a file.
    """
    for path, above, number in _list_written_files(source):
        with _convert_errors(folder, path):
            move_below(path.rpartition("/")[2], folder, path, above=above, file=number)


def _list_written_files(folder: Path) -> Iterator[tuple[str, int, int]]:
    """Yield the items of `files_below`, with converted errors.

    The errors are about the container.
    """
    try:
        yield from files_below(folder)
    except OSError as err:
        raise EngineError(f"what a container wrote cannot be read: {err.strerror}", hint=_PLAIN) from None


def _check_free_space(size: int, folder: Path) -> None:
    """Refuse a file that exceeds the disk's free space.

    A sparse file can have any length.
    """
    free = shutil.disk_usage(folder).free
    if size > free:
        raise EngineError(
            f"what a container wrote cannot be kept in {folder}: a file has {size} bytes, and {free} are free",
            hint=_ROOM,
        )


@contextlib.contextmanager
def _convert_errors(folder: Path, name: str) -> Iterator[None]:
    """Convert file errors into errors about the container."""
    strange = EngineError(f"a container wrote a file with a strange name: {ascii(name)[:200]}", hint=_STRANGE)
    if not name.isprintable():
        raise strange
    try:
        yield
    except BuildError:
        raise strange from None
    except OSError as err:
        raise EngineError(
            f"what a container wrote cannot be kept in {folder}: {err.strerror}", hint=_ROOM
        ) from None


def directory_tar(path: str) -> bytes:
    """Return a tar with one empty directory, writable by everyone.

    A container writes its outputs there.
    """
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        info = tarfile.TarInfo(path.strip("/"))
        info.type, info.mode = tarfile.DIRTYPE, 0o777
        tar.addfile(info)
    return stream.getvalue()


def read_files(stream: IO[bytes]) -> dict[str, bytes]:
    """Return the regular files of a tar by relative path.

    The tar has one directory.

    Raises:
        EngineError: they are too large together, or the tar is damaged.
    """
    files: dict[str, bytes] = {}
    whole = 0
    try:
        with tarfile.open(fileobj=stream) as tar:
            for info in tar:
                opened = tar.extractfile(info) if info.isreg() else None
                if opened:
                    whole += info.size
                    refuse_large(whole)
                    files[info.name.partition("/")[2]] = opened.read()
    except UNREADABLE as err:
        raise _damage_error(err) from None
    return files


def spool_small(pieces: Iterable[bytes], spool: IO[bytes]) -> None:
    """Write the pieces of a tar for `read_files`.

    Raises:
        EngineError: it is too large.
    """
    whole = 0
    for piece in pieces:
        whole += len(piece)
        refuse_large(whole)
        spool.write(piece)


def read_directory(folder: Path) -> dict[str, bytes]:
    """Return the regular files below a directory by relative path.

    No link is followed.

    Raises:
        EngineError: they are too large together, or too deep.
    """
    files: dict[str, bytes] = {}
    whole = 0
    for path, _, number in _list_written_files(folder):
        with os.fdopen(os.dup(number), "rb") as stream:
            whole += os.fstat(number).st_size
            refuse_large(whole)
            files[path] = stream.read(LARGEST)
    return files


def refuse_large(size: int) -> None:
    """Refuse a size above that of a capture's lists.

    The files are for the memory of this process. `size` is in bytes.

    Raises:
        EngineError: the size is above the bound.
    """
    if size > LARGEST:
        raise EngineError(
            f"a container wrote more than {LARGEST >> 20} MiB where lists of a capture are expected",
            hint="its programs are not those of reprobuild: build the image again from its lock",
        )


def _damage_error(err: Exception) -> EngineError:
    return EngineError(f"what a container wrote cannot be read: {err}", hint="see the log of the engine")
