"""Normalisation of a base's finished tree.

Its own programs packed it. The new tar has one time, no leftovers and no special files.
"""

from __future__ import annotations

import tarfile
from collections.abc import Collection
from pathlib import Path
from typing import IO

from msgspec import structs

from reprobuild.errors import BuildError
from reprobuild.infra.display import display_text
from reprobuild.infra.tar.entries import TarEntry, entry_of
from reprobuild.infra.tar.writing import TarWriter
from reprobuild.infra.untrusted import tars
from reprobuild.infra.untrusted.names import check_path, check_target
from reprobuild.realise import java
from reprobuild.realise.cleanup import leftover_of

# Directories that are mount points in every container: empty, with these modes.
EMPTY = {"dev": 0o755, "proc": 0o555, "run": 0o755, "sys": 0o555, "tmp": 0o1777}
_TREE = "the tree that the packages made"
_KINDS = {"char": "device", "block": "device", "fifo": "pipe"}
_HOSTILE = "one of the packages makes it, which none of Debian's does; leave it out with `--drop NAME`"


def rewrite(archive: Path, tree: Path, epoch: int, hint: str = _HOSTILE) -> list[TarEntry]:
    """Rewrite the tree in normal form; return its entries.

    It has one time for all, no names of owners, empty mount points, and no leftovers.

    Programs of the packages packed the tree, so it is as untrusted as they are.

    Args:
        archive: the tree as it was packed.
        tree: written.
        epoch: the time of every entry.
        hint: advice for a tree that cannot be read or is invalid in a base.

    Raises:
        BuildError: it cannot be read, or is invalid in a base.
    """
    removed: set[str] = set()
    try:
        with archive.open("rb") as source, tree.open("wb") as target, tars.open_stream(source) as tar:
            writer = TarWriter(target, epoch)
            for info in tars.members(tar, _TREE):
                entry = entry_of(info)
                if min(entry.uid, entry.gid) < 0:
                    raise tarfile.ReadError(f"{info.name!r} has a negative owner")
                _check(entry, hint)
                top, leftover = entry.path.partition("/")[0], leftover_of(entry)
                if leftover and (leftover.action == "remove" or entry.type != "file"):
                    removed.add(entry.path)
                elif top in EMPTY and entry.path == top:
                    writer.directory(top, EMPTY[top])
                elif entry.path and top not in EMPTY:
                    _copy(
                        entry, tar.extractfile(info) if entry.type == "file" else None, writer, epoch, removed
                    )
            writer.close()
    except tars.UNREADABLE as err:
        raise BuildError(f"{_TREE} cannot be read: {err}", hint=hint) from None
    return writer.listing


def _copy(
    entry: TarEntry, content: IO[bytes] | None, writer: TarWriter, epoch: int, removed: Collection[str]
) -> None:
    """Write one entry of the tree, with content normalised if needed."""
    if entry.type == "hardlink" and entry.target in removed:
        raise BuildError(
            f"{_TREE} holds /{display_text(entry.path)}, a link to /{display_text(entry.target)}, which is removed",
            hint=_HOSTILE,
        )
    if content is not None and leftover_of(entry):
        writer.add(structs.replace(entry, size=0), b"")
    elif content is not None and entry.path == java.PATH and entry.size <= java.LARGEST:
        writer.add(entry, java.with_time(content.read(), epoch))
    else:
        writer.add(entry, content)


def _check(entry: TarEntry, hint: str) -> None:
    """Refuse entries that are not valid in a base.

    These are devices and pipes, and names that lead out or that engines read as deletions.
    """
    if entry.path:
        check_path(entry.path, _TREE)
    if entry.type == "symlink":
        check_target(entry.target, entry.path, _TREE)
    if entry.type in ("char", "block", "fifo"):
        raise BuildError(f"{_TREE} holds /{display_text(entry.path)}, a {_KINDS[entry.type]}", hint=hint)
