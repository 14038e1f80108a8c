"""Directories of a repository."""

from __future__ import annotations

import os
from typing import Optional, Tuple

from reprobuild_portable.capture.files import _read
from reprobuild_portable.capture.model import GaveUpError


def find_top(folder: str) -> Optional[str]:
    """Return the work tree around a directory, or None."""
    folder = os.path.realpath(folder)
    while True:
        if os.path.exists(os.path.join(folder, ".git")):
            return folder
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def _git_folders(top: str) -> Tuple[str, str]:
    """Return a work tree's git directory, and the shared one.

    Worktrees share the second (gitrepository-layout).
    """
    folder = os.path.join(top, ".git")
    if os.path.isfile(folder):
        content = _read(folder, 1 << 14)
        if not content.startswith(b"gitdir: "):
            raise GaveUpError("failed", "its `.git` is no git directory")
        folder = os.path.join(top, os.fsdecode(content[8:].rstrip(b"\r\n")))
    if not os.path.isfile(os.path.join(folder, "HEAD")):
        raise GaveUpError("failed", "its `.git` is no git directory")
    shared = _read(os.path.join(folder, "commondir"), 1 << 14).rstrip(b"\r\n")
    common = os.path.join(folder, os.fsdecode(shared)) if shared else folder
    return os.path.realpath(folder), os.path.realpath(common)
