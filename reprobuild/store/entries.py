"""The entries of a store, as garbage collection and verification read them."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from reprobuild.errors import UsageError
from reprobuild.store.roots import FOLDER
from reprobuild.store.store import Store


class UnreadFile(Struct, frozen=True, kw_only=True):
    """A lock or a blob that cannot be read, and the reason. It is kept."""

    path: str
    reason: str


def require_store(store: Store) -> None:
    """Refuse a directory without signs of a store.

    Other directories have a `tmp`, too.
    """
    if not any((store.root / name).is_dir() for name in ("blobs", FOLDER)):
        raise UsageError(f"there is no store at {store.root}", hint="name another one with `--store`")


def list_directory(folder: Path) -> list[Path]:
    """Return the sorted entries of a directory; none of a link or of a removed directory."""
    with contextlib.suppress(FileNotFoundError):  # it was removed in the meantime
        return sorted(folder.iterdir()) if folder.is_dir() and not folder.is_symlink() else []
    return []


def stat_files(path: Path) -> Iterator[os.stat_result]:
    """Yield the stat of each file at a path, recursively.

    Files that were removed in the meantime are left out.
    """
    with contextlib.suppress(FileNotFoundError):
        facts = path.lstat()
        if not stat.S_ISDIR(facts.st_mode):
            yield facts
            return
    folders = [str(path)]
    while folders:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    elif entry.is_file(follow_symlinks=False):
                        yield entry.stat(follow_symlinks=False)
