"""Source archives: sdists and complete repositories, read without unpacking.

https://packaging.python.org/en/latest/specifications/source-distribution-format/ has one form,
`NAME-VERSION.tar.gz`; older ones may be any of these.
"""

from __future__ import annotations

import io
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from lzma import LZMAError
from pathlib import Path
from typing import IO

from msgspec import Struct

from reprobuild.errors import BuildError
from reprobuild.infra.untrusted import tars, zips
from reprobuild.infra.untrusted.names import HOSTILE, check_path

_MODES = {
    ".tar.gz": "r|gz", ".tgz": "r|gz", ".tar.bz2": "r|bz2", ".tbz2": "r|bz2", ".tar.xz": "r|xz", ".txz": "r|xz",
    ".tar": "r|", ".zip": "",
}  # fmt: skip
_UNREADABLE = (*tars.UNREADABLE, *zips.UNREADABLE, zlib.error, LZMAError, OSError)


class SdistMember(Struct, frozen=True, kw_only=True):
    """A file or link of an archive.

    `path` is below the only directory at the archive's top. `open` may be called before the next member is
    taken, and its stream read until then; for a link `target` is its text.
    """

    path: str
    executable: bool = False
    target: str | None = None
    open: Callable[[], IO[bytes]] = io.BytesIO


def read_sdist(path: Path, filename: str, subdirectory: str = "") -> Iterator[SdistMember]:
    """Yield every file and symbolic link of a source archive.

    Args:
        path: the archive, under any name.
        filename: its own name, which determines its format.
        subdirectory: the project's directory below the archive's only directory; other files are left out.

    Raises:
        BuildError: it is of an unknown kind or damaged; it holds unsafe paths, other members than files,
            directories and links, more than one directory at its top, or unpacks to too much.
    """
    mode = next((mode for ending, mode in _MODES.items() if filename.lower().endswith(ending)), None)
    if mode is None:
        raise BuildError(
            f"{filename} is an archive of no known kind",
            hint="those are read: .tar, also packed by gzip, bzip2 or xz, and .zip",
        )
    inside = f"{subdirectory}/" if subdirectory else ""
    top: str | None = None
    try:
        for member in _tar_members(path, filename, mode) if mode else _zip_members(path, filename):
            folder, _, rest = member.path.partition("/")
            top = folder if top is None else top
            if folder != top or not rest:
                raise BuildError(
                    f"{filename} holds {member.path!r} beside the directory {top!r}: an sdist has one directory",
                    hint="build a wheel of it by hand, and put that into a directory of pip's find-links",
                )
            if rest.startswith(inside):
                yield SdistMember(
                    path=rest[len(inside) :], executable=member.executable, target=member.target,
                    open=member.open,
                )  # fmt: skip
    except _UNREADABLE as err:
        raise BuildError(f"{filename} cannot be read: {err}", hint=HOSTILE) from None


def _tar_members(path: Path, filename: str, mode: str) -> Iterator[SdistMember]:
    packed = path.stat().st_size
    with path.open("rb") as stream, closing(tars.open_stream(stream, mode)) as tar:
        for info in tars.members(tar, filename, packed=packed):
            name = info.name.removeprefix("./").rstrip("/")
            if info.isdir():
                continue
            check_path(name, filename)
            if not (info.isreg() or info.issym()):
                raise BuildError(
                    f"{filename} holds {name!r}, which is neither a file nor a link", hint=HOSTILE
                )
            yield SdistMember(
                path=name, executable=bool(info.mode & 0o100), target=info.linkname if info.issym() else None,
                open=lambda info=info: _open_member(tar, info),  # type: ignore[misc]  # mypy: a default is Any
            )  # fmt: skip


def _open_member(tar: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    opened = tar.extractfile(info)
    assert opened is not None  # it is a regular file
    return opened


def _zip_members(path: Path, filename: str) -> Iterator[SdistMember]:
    with zips.open_zip(path, filename) as (archive, members):
        for name, info in members.items():
            yield SdistMember(
                path=name, executable=bool((info.external_attr >> 16) & 0o100),
                open=lambda info=info: archive.open(info),  # type: ignore[misc]  # as above
            )  # fmt: skip
