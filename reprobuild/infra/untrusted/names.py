"""Checks of member names, and of unpacked sizes.

Names must stay in their directory on Linux, and sizes must fit a disk. `write_below` checks those that this machine
writes, on Windows too.
"""

from __future__ import annotations

import re

from reprobuild.errors import BuildError

_UNSAFE = re.compile(r"(^|/)\.{0,2}(/|$)|\0")
_WHITEOUT = re.compile(r"(^|/)\.wh\.")
# limits.h: NAME_MAX, and PATH_MAX without the leading slash and the final NUL.
LONGEST_NAME = 255
LONGEST_PATH = 4094
HOSTILE = (
    "the file is damaged or made to harm; get it from where it was published, or leave it out with `--drop`"
)
MOST_MEMBERS = 1_000_000
# Real wheels and packages unpack to 2 to 20 times their size; small ones may hold very repetitive data.
RATIO = 200
ALLOWANCE = 256 << 20


def check_name(path: str, origin: str) -> None:
    """Refuse a name that leaves its directory, or is impossible.

    An impossible name fits no Linux file system.

    Raises:
        BuildError: the name is absolute, not in its shortest form, or is too long. A backslash is an ordinary
            character: systemd has units with it.
    """
    if len(path) > LONGEST_PATH // 4:  # shorter ones cannot be too long in bytes
        size = len(path.encode("utf-8", "surrogateescape"))
        if size > LONGEST_PATH:
            raise BuildError(f"{origin} holds the path {path[:60]!r}... of {size} bytes", hint=HOSTILE)
    if _UNSAFE.search(path):
        raise BuildError(f"{origin} holds the unsafe path {path!r}", hint=HOSTILE)
    if len(path) > LONGEST_NAME // 4:
        for name in path.split("/"):
            size = len(name.encode("utf-8", "surrogateescape"))
            if size > LONGEST_NAME:
                raise BuildError(f"{origin} holds the name {name[:60]!r}... of {size} bytes", hint=HOSTILE)


def check_path(path: str, origin: str) -> None:
    """Refuse a name by `check_name`, or a whiteout's name.

    Engines read the latter as a deletion.

    Raises:
        BuildError: see `check_name`; or it begins with the whiteout mark of the OCI image specification
            (`.wh.`).
    """
    check_name(path, origin)
    if _WHITEOUT.search(path):
        raise BuildError(f"{origin} holds {path!r}, which engines read as a deletion", hint=HOSTILE)


def check_target(target: str, path: str, origin: str) -> None:
    """Refuse the text of an impossible symbolic link.

    No Linux file system can hold such a text; its target does not matter.

    Raises:
        BuildError: it is empty, too long, or holds a NUL.
    """
    if not target or "\0" in target or len(target.encode("utf-8", "surrogateescape")) > LONGEST_PATH:
        raise BuildError(f"{origin} holds {path!r}, a link to the impossible {target[:60]!r}", hint=HOSTILE)


def most_bytes(packed: int) -> int:
    """Return the byte limit of an unpacked archive.

    `packed` is the number of bytes of the archive.
    """
    return ALLOWANCE + RATIO * packed


def check_total(total: int, packed: int, origin: str) -> None:
    """Refuse an archive that unpacks to more than `most_bytes`.

    Raises:
        BuildError: it is a decompression bomb.
    """
    if total > most_bytes(packed):
        raise BuildError(
            f"{origin} has {packed} bytes and unpacks to more than {most_bytes(packed)}", hint=HOSTILE
        )
