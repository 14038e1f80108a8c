"""Repositories of others on the disk: git follows what stands in them to objects that lie elsewhere."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from reprobuild.guard.plain import open_plain, read_plain

# A file that begins otherwise may be a gitfile: https://git-scm.com/docs/gitrepository-layout
_BUNDLES = (b"# v2 git bundle\n", b"# v3 git bundle\n")
# Files below `.git` that name another folder, or a second file of settings.
_LEADING = frozenset(
    {"commondir", "config.worktree", "objects/info/alternates", "objects/info/http-alternates"}
)
# Settings that name another file, or a place from where git gets the objects that lack.
_SETTINGS = (b"include", b"promisor", b"partialclone")
_CONFIG = 1 << 20


def is_self_contained(path: Path) -> bool:
    """Tell whether git, when it fetches from a path, reads that path alone.

    A bundle is, and a clone whose `.git` is a folder with neither a link nor a reference to another place. What is
    not there is, too. Of a path, git also tries PATH.git, and a folder that is a bare repository itself.

    Args:
        path: a folder, or a file.
    """
    try:
        if _is_bundle(path):
            return True
        if os.path.lexists(f"{path}.git"):
            return False
        return not os.path.lexists(path) or _is_clone(path)
    except OSError:  # it cannot be read to the end
        return False


def _is_bundle(path: Path) -> bool:
    try:
        stream, _ = open_plain(path, links=False)
    except OSError:
        return False
    with stream:
        return stream.read(len(_BUNDLES[0])) in _BUNDLES


def _is_clone(path: Path) -> bool:
    inner = path / ".git"
    if not (_is_folder(path) and _is_folder(inner)) or os.path.lexists(path / "HEAD"):
        return False
    config = read_plain(inner / "config", _CONFIG).lower()
    return not any(word in config for word in _SETTINGS) and _is_plain_below(inner)


def _is_folder(path: Path) -> bool:
    return stat.S_ISDIR(path.lstat().st_mode)


def _is_plain_below(top: Path) -> bool:
    """Tell whether a folder holds plain files and folders alone, and none of the files that lead elsewhere."""
    left = [top]
    while left:
        with os.scandir(left.pop()) as entries:
            for entry in entries:
                name = Path(entry.path).relative_to(top).as_posix().lower()
                if entry.is_dir(follow_symlinks=False):
                    left.append(Path(entry.path))
                elif name in _LEADING or not entry.is_file(follow_symlinks=False):
                    return False
    return True
