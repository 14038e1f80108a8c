"""An interpreter moved from its original prefix to another.

The module finds the texts that name the old prefix, and converts them.
"""

from __future__ import annotations

import re

from reprobuild.infra.untrusted.elf import SearchPath
from reprobuild.infra.untrusted.elf_search import with_search_path

_OF_ITSELF = (b"$ORIGIN", b"${ORIGIN}")  # ld.so(8): the directory of the file
# The characters around a path in `sysconfig` and pkg-config, or the option of a compiler before it.
_BEFORE = r"(?:(?<![\w./-])|(?<=-[IL]))"
_AFTER = r"(?![\w.-])"
_PREFIX = re.compile(
    r"(?m)^(?:build_time_vars = \{| )'prefix': '((?:/(?!\.{1,2}(?:/|'))[A-Za-z0-9._+@-]+)+)'"
)


def find_build_prefix(sysconfig: str) -> str:
    """Return the prefix in a module of `sysconfig`, or "".

    It is empty if no prefix can be identified in the text.
    """
    match = _PREFIX.search(sysconfig)
    return match[1] if match else ""


def relocate_text(text: str, old: str, new: str) -> str:
    """Return a text with one directory replaced by another.

    Names that only share its beginning stay.
    """
    return re.sub(_BEFORE + re.escape(old) + _AFTER, lambda _: new, text)


def relocate_search_path(text: bytes, old: str, new: str) -> bytes | None:
    """Return a loader search path with one directory replaced.

    It keeps its length: NULs fill the rest, so that no other byte of the file moves. None means that the new
    path does not fit.
    """
    moved = _replace_prefix(text, old, new)
    return moved.ljust(len(text), b"\0") if len(moved) <= len(text) else None


def relocate_program(data: bytes, search: SearchPath | None, old: str, new: str) -> bytes | None:
    """Return a program that finds its libraries elsewhere, or None.

    The libraries are those of its own installation, in another directory.

    Args:
        data: the complete file.
        search: its search path, if any.
        old: its original prefix; empty if unknown.
        new: its new prefix.
    """
    text = search.text if search else b""
    if any(mark in text for mark in _OF_ITSELF):
        return data
    library = f"{new}/lib".encode()
    new_text = _replace_prefix(text, old, new) if old and text else text
    if library not in new_text.split(b":"):
        new_text = b":".join(filter(None, (library, new_text)))
    if search and len(new_text) <= len(text):
        end = search.place + len(text)
        return data[: search.place] + new_text.ljust(len(text), b"\0") + data[end:]
    return with_search_path(data, new_text)


def _replace_prefix(text: bytes, old: str, new: str) -> bytes:
    before = old.encode()
    parts = [
        new.encode() + part[len(before) :] if f"{part.decode('latin-1')}/".startswith(f"{old}/") else part
        for part in text.split(b":")
    ]
    return b":".join(dict.fromkeys(parts))
