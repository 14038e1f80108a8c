"""Files that a container wrote, read from its tar or put into a folder of this machine: they may be gigabytes.

What a container writes is hostile: only regular files are taken, links are not followed, and a name that leads out of
the folder, or that no person could read, is refused.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import stat
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from reprobuild.errors import EngineError
from reprobuild.guard.tars import UNREADABLE

CHUNK = 1 << 20
_ROOM = "free space there, or let TMPDIR name a folder with more room"
_STRANGE = "let the command write it under a plain name"


class Pieces:
    """A file to be read from its start to its end, of the pieces of an answer."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._rest = b""

    def read(self, size: int) -> bytes:
        """Return so many bytes, fewer only at the end."""
        found = [self._rest]
        there = len(self._rest)
        while there < size and (piece := next(self._pieces, None)) is not None:
            found.append(piece)
            there += len(piece)
        data = b"".join(found)
        self._rest = data[size:]
        return data[:size]


def keep_tar(stream: IO[bytes], folder: Path) -> None:
    """Write the regular files of a tar, which is read once from its start to its end, below a folder.

    Their names lose the first part, that of the folder they were read from.

    Raises:
        EngineError: a name is hostile, the tar is damaged, or the folder cannot take a file.
    """
    try:
        with tarfile.open(fileobj=stream, mode="r|") as tar:
            for info in tar:
                opened = tar.extractfile(info) if info.isreg() else None
                if opened:
                    _room_for(info.size, folder)
                    with _placed(folder, info.name.partition("/")[2]) as path, path.open("xb") as target:
                        shutil.copyfileobj(opened, target, CHUNK)
    except UNREADABLE as err:
        raise EngineError(
            f"what a container wrote cannot be read: {err}", hint="see the log of the engine"
        ) from None


def keep_folder(source: Path, folder: Path) -> None:
    """Move the regular files below one folder into another, which may be on another file system.

    Raises:
        EngineError: a name is hostile, or the folder cannot take a file.
    """
    for path, _, names in os.walk(source):
        for name in names:
            file = Path(path, name)
            if stat.S_ISREG(file.lstat().st_mode):
                with _placed(folder, str(file.relative_to(source))) as target:
                    file.chmod(0o600)
                    shutil.move(file, target)


def _room_for(size: int, folder: Path) -> None:
    """Refuse a file before it fills the disk of this machine: one of holes is as long as its command likes."""
    free = shutil.disk_usage(folder).free
    if size > free:
        raise EngineError(
            f"what a container wrote cannot be kept in {folder}: a file has {size} bytes, and {free} are free",
            hint=_ROOM,
        )


@contextlib.contextmanager
def _placed(folder: Path, name: str) -> Iterator[Path]:
    """Give the path below the folder for a file, which is not there yet."""
    path = PurePosixPath(name)
    if not name.isprintable() or path.is_absolute() or ".." in path.parts or not path.parts:
        raise EngineError(f"a container wrote a file with a strange name: {ascii(name)[:200]}", hint=_STRANGE)
    try:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        yield folder / path
    except OSError as err:
        raise EngineError(
            f"what a container wrote cannot be kept in {folder}: {err.strerror}", hint=_ROOM
        ) from None


def folder_tar(path: str) -> bytes:
    """Return a tar with one empty folder, which everybody may write to: a container's own, for its results."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        info = tarfile.TarInfo(path.strip("/"))
        info.type, info.mode = tarfile.DIRTYPE, 0o777
        tar.addfile(info)
    return stream.getvalue()


def read_files(stream: IO[bytes]) -> dict[str, bytes]:
    """Return the regular files of a tar of one folder, by their path relative to it."""
    found = {}
    with tarfile.open(fileobj=stream) as tar:
        for info in tar:
            opened = tar.extractfile(info) if info.isreg() else None
            if opened:
                found[info.name.partition("/")[2]] = opened.read()
    return found
