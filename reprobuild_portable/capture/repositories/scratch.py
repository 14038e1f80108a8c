"""A git directory of our own, for the commands that write an index.

git then runs the hook `post-index-change`. Since git 2.54 a configuration can name hooks, too, and `core.hooksPath`
does not switch these off (git-config, `hook.<friendly-name>`). So these commands read no configuration.
"""

from __future__ import annotations

import os
import re
import shutil

from reprobuild_portable.capture.files import _scan
from reprobuild_portable.host import host

NO_SETTINGS = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
_SHA256 = b"[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha256\n"
_SHARED = re.compile(r"sharedindex\.((?:[0-9a-f]{2}){20,32})")


def make_git_directory(folder: str, kind: str, index: str, other: str) -> None:
    """Make a git directory without refs and settings; the objects are named by variables.

    Args:
        folder: is made.
        kind: the hash of its objects.
        index: a copy of the index of a repository; a split index has most entries in another file.
        other: the git directory of that repository.
    """
    for name in ("", "refs", "objects"):
        host.mkdir(os.path.join(folder, name))
    _write_file(os.path.join(folder, "HEAD"), b"ref: refs/heads/none\n")
    if kind == "sha256":
        _write_file(os.path.join(folder, "config"), _SHA256)
    for entry in _scan(other):
        match = _SHARED.fullmatch(entry.name)
        if match and entry.is_file(follow_symlinks=False) and _contains(index, bytes.fromhex(match.group(1))):
            shutil.copyfile(entry.path, os.path.join(folder, entry.name))


def is_sparse(index: str) -> bool:
    """Return whether an index may have a directory as one entry (gitformat-index, `sdir`)."""
    return _contains(index, b"sdir")


def _contains(index: str, text: bytes) -> bool:
    if not os.path.exists(index):  # an unborn repository may have none
        return False
    with open(index, "rb") as stream:
        return text in stream.read()


def _write_file(path: str, content: bytes) -> None:
    with open(path, "wb") as stream:
        stream.write(content)
