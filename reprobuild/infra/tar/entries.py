"""A path of a tree, with its tar header's facts."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterable
from typing import IO, Literal

import msgspec
from msgspec import Struct

from reprobuild.errors import BuildError
from reprobuild.infra.display import display_text
from reprobuild.infra.untrusted.names import HOSTILE
from reprobuild.infra.untrusted.strings import Hex, Line, LinkTarget, OptionalSha256, TreePath

CHUNK = 1 << 20
MOST_CHARACTERS = (
    64 << 20
)  # of the paths of all directories above files; the largest images have some million

EntryType = Literal["file", "directory", "symlink", "hardlink", "char", "block", "fifo"]


class TarEntry(Struct, frozen=True, kw_only=True):
    """A path of a tree, without a leading slash.

    `sha256` is the content's, for a file. `target` is the text of a symbolic link, or the path of the file
    that a hard link repeats. `xattrs` are (name, hex value) pairs, sorted.
    """

    path: TreePath
    type: EntryType
    mode: int
    uid: int = 0
    gid: int = 0
    size: int = 0
    target: LinkTarget = ""
    sha256: OptionalSha256 = ""
    device: tuple[int, int] = (0, 0)
    xattrs: tuple[tuple[Line, Hex], ...] = ()


TAR_TYPES: dict[EntryType, bytes] = {
    "file": tarfile.REGTYPE,
    "directory": tarfile.DIRTYPE,
    "symlink": tarfile.SYMTYPE,
    "hardlink": tarfile.LNKTYPE,
    "char": tarfile.CHRTYPE,
    "block": tarfile.BLKTYPE,
    "fifo": tarfile.FIFOTYPE,
}
ENTRY_TYPES: dict[bytes, EntryType] = {value: key for key, value in TAR_TYPES.items()}
ENTRY_TYPES[tarfile.AREGTYPE] = "file"


def entry_of(info: tarfile.TarInfo) -> TarEntry:
    """Return the entry of a tar header, without a hash.

    Raises:
        ValueError: a layer cannot hold a member of this kind (a GNU sparse file, a volume label).
    """
    kind = ENTRY_TYPES.get(info.type)
    if kind is None:
        raise ValueError(
            f"{display_text(info.name)} is of the tar type {info.type!r}, which a layer cannot hold"
        )
    return TarEntry(
        path=normalise_name(info.name),
        type=kind,
        mode=info.mode & 0o7777,
        uid=info.uid,
        gid=info.gid,
        size=info.size if kind == "file" else 0,
        target=normalise_name(info.linkname) if kind == "hardlink" else info.linkname,
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


def normalise_name(path: str) -> str:
    """Return a normalised member name.

    It has no leading `./` or `/` and no trailing slash.
    """
    while path.startswith(("./", "/")):
        path = path[2:] if path.startswith("./") else path[1:]
    return "" if path == "." else path.rstrip("/")


def with_hash(entry: TarEntry, content: IO[bytes] | None) -> TarEntry:
    """Return a file's entry with the sha256 of its content.

    The content is read in pieces.
    """
    if entry.type != "file" or content is None:
        return entry
    digest = hashlib.sha256()
    while chunk := content.read(CHUNK):
        digest.update(chunk)
    return msgspec.structs.replace(entry, sha256=digest.hexdigest())


def list_parents(paths: Iterable[str]) -> list[str]:
    """Return every directory above the given paths.

    Each is listed once, parents first.

    Raises:
        BuildError: the names of the directories are too long together. A path of 4096 characters has up to 2047 of
            them, with four million characters.
    """
    directories: set[str] = set()
    characters = 0
    for path in paths:
        above = path.rpartition("/")[0]
        while above and above not in directories:
            directories.add(above)
            characters += len(above)
            if characters > MOST_CHARACTERS:
                raise BuildError(
                    f"the paths of the directories have more than {MOST_CHARACTERS} characters together, at "
                    f"{display_text(path[:60])}...",
                    hint=HOSTILE,
                )
            above = above.rpartition("/")[0]
    return sorted(directories)
