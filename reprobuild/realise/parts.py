"""What a build writes into an editable project's own tree, and the image needs there: compiled modules, and such."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection
from pathlib import Path

from reprobuild.archive import Entry, TarWriter, parents
from reprobuild.guard.names import check_path
from reprobuild.lock import EPOCH
from reprobuild.store import Store, hash_file

# What builds leave behind that nothing imports: their own folders, objects, and C that was made of Cython.
_FOLDERS = re.compile(
    r"build|dist|target|\.eggs|__pycache__|\.git|CMakeFiles|_skbuild|\.mesonpy-.*|\.pdm-build|.*\.(egg|dist)-info"
)
_FILES = re.compile(r".*\.(o|obj|a|d|pyc|c|cc|cpp|cxx|lock)|\.gitignore|\.pdm-python")


def paths_below(folder: Path) -> frozenset[str]:
    """Return the paths of all regular files below a folder; no link is followed."""
    found = set()
    for above, _, names in os.walk(folder):
        for name in names:
            path = Path(above) / name
            if stat.S_ISREG(path.lstat().st_mode):
                found.add(path.relative_to(folder).as_posix())
    return frozenset(found)


def keep_parts(
    folder: Path, before: Collection[str], origin: str, store: Store
) -> tuple[str, tuple[str, ...]]:
    """Put what a build added to a tree into the store, as a tar.

    Files that were there before stay those of the source, whatever the build made of them.

    Args:
        folder: the tree after the build.
        before: the paths of its files before.
        origin: what the user knows it by.
        store: receives the tar.

    Returns:
        The sha256 of the tar and the paths of its files; empty where there is nothing.

    Raises:
        BuildError: a path is one that no layer can hold.
    """
    added = sorted(path for path in paths_below(folder) - set(before) if _is_part(path))
    if not added:
        return "", ()
    with store.scratch() as scratch:
        tar = scratch / "parts.tar"
        with tar.open("wb") as stream:
            writer = TarWriter(stream, EPOCH)
            for directory in parents(added):
                check_path(directory, origin)
                writer.directory(directory)
            for path in added:
                check_path(path, origin)
                facts = (folder / path).stat()
                mode = 0o755 if facts.st_mode & 0o100 else 0o644
                with (folder / path).open("rb") as content:
                    writer.add(Entry(path=path, type="file", mode=mode, size=facts.st_size), content)
            writer.close()
        digest = hash_file(tar)
        store.adopt(tar, digest)
    return digest, tuple(added)


def _is_part(path: str) -> bool:
    *above, name = path.split("/")
    return not any(_FOLDERS.fullmatch(folder) for folder in above) and not _FILES.fullmatch(name)
