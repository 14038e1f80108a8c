"""The id that `git write-tree` gives a directory, without git.

https://git-scm.com/book/en/v2/Git-Internals-Git-Objects
"""

from __future__ import annotations

import hashlib
import os
import stat
from fnmatch import fnmatchcase
from typing import Any, Iterable, Optional, Tuple

IGNORED = (".git", "__pycache__")  # never part of a source, at any depth


def tree_id(folder: str, generated: Iterable[str] = ()) -> str:
    """Return the SHA-1 tree id of a directory's content.

    The id has 40 hexadecimal digits. As in git, files, symbolic links and the owner's executable bit count;
    empty directories, times and other bits do not. `IGNORED` and matches of `generated` are left out: a
    pattern without a slash matches a name at any depth, one with a slash the path from the directory. No
    .gitattributes filter is applied.
    """
    patterns = (*IGNORED, *generated)
    identity = _tree(os.fsencode(folder), b"", patterns)
    return (identity if identity is not None else _hash_object(b"tree", b"")).hex()


def _tree(root: bytes, inside: bytes, patterns: Tuple[str, ...]) -> Optional[bytes]:
    """Return the binary id of one directory, or None.

    The id is None if no entry of the directory counts.
    """
    entries = []
    for name in os.listdir(os.path.join(root, inside)):
        path = os.path.join(inside, name)
        if _matches(os.fsdecode(path), patterns):
            continue
        item = _entry(root, path, patterns)
        if item is not None:
            mode, identity = item
            # git sorts a directory as if its name ended in a slash
            entries.append((name + b"/" if mode == b"40000" else name, mode + b" " + name + b"\0" + identity))
    return _hash_object(b"tree", b"".join(entry for _, entry in sorted(entries))) if entries else None


def _entry(root: bytes, path: bytes, patterns: Tuple[str, ...]) -> Optional[Tuple[bytes, bytes]]:
    full = os.path.join(root, path)
    status = os.lstat(full)
    if stat.S_ISLNK(status.st_mode):
        return b"120000", _hash_object(b"blob", os.readlink(full))
    if stat.S_ISDIR(status.st_mode):
        identity = _tree(root, path, patterns)
        return None if identity is None else (b"40000", identity)
    if stat.S_ISREG(status.st_mode):
        return b"100755" if status.st_mode & stat.S_IXUSR else b"100644", _file(full, status.st_size)
    return None  # git records no pipes, sockets and devices


def _matches(path: str, patterns: Iterable[str]) -> bool:
    name = path.rpartition("/")[2]
    return any(fnmatchcase(path if "/" in pattern else name, pattern.strip("/")) for pattern in patterns)


def _hash_object(kind: bytes, body: bytes) -> bytes:
    digest = _sha1(kind + b" %d\0" % len(body))
    digest.update(body)
    return bytes(digest.digest())


def _file(path: bytes, size: int) -> bytes:
    digest = _sha1(b"blob %d\0" % size)
    with open(path, "rb") as file:
        for chunk in iter(lambda: file.read(1 << 20), b""):
            digest.update(chunk)
    return bytes(digest.digest())


def _sha1(start: bytes) -> Any:
    try:
        return hashlib.new("sha1", start, usedforsecurity=False)  # or a FIPS system refuses it
    except TypeError:  # Python 3.8
        return hashlib.new("sha1", start)  # the id is git's choice
