"""Small files, and paths as text."""

from __future__ import annotations

import hashlib
import os
import stat
from typing import List, Union

from reprobuild_portable.capture.model import Context
from reprobuild_portable.host import host


def _read(path: str, most: int = 1 << 20) -> bytes:
    """Return the content of a small file of the system.

    The content is empty if the file cannot be read, or is a pipe or a device.
    """
    try:
        number = host.open(path, host.O_RDONLY | host.O_NONBLOCK | host.O_CLOEXEC)
        try:
            if not stat.S_ISREG(host.fstat(number).st_mode):
                return b""
            with open(number, "rb", closefd=False) as stream:
                return stream.read(most)
        finally:
            host.close(number)
    except OSError:
        return b""


def _text(path: str, most: int = 1 << 20) -> str:
    return _read(path, most).decode("utf-8", "replace").strip()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def quote(name: bytes) -> str:
    """Return a path as text that can be reversed.

    A plain path is unchanged. Another path is in git's C-style quotes.
    """
    try:
        text = name.decode()
    except UnicodeDecodeError:
        text = ""
    if text and text.isprintable() and '"' not in text and "\\" not in text:
        return text
    named = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}
    return '"' + "".join(named.get(c, chr(c) if 32 <= c < 127 else f"\\{c:03o}") for c in name) + '"'


def _path(path: str) -> str:
    return quote(os.fsencode(path))


def _relative(path: str, top: str) -> str:
    """Return a path below a directory, as git and pip write it on each system."""
    return os.path.relpath(path, top).replace(os.sep, "/")


def _scan(folder: str) -> List[os.DirEntry[str]]:
    try:
        return list(os.scandir(folder))
    except OSError:
        return []


def _sha256(path: Union[str, int], context: Context) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        for piece in iter(lambda: stream.read(1 << 20), b""):
            context.left()
            digest.update(piece)
    return digest.hexdigest()
