"""An interpreter that was built for one folder and stands in another: what names the old one, and its new form."""

from __future__ import annotations

import re

from reprobuild.infra.untrusted.elf import SearchPath
from reprobuild.infra.untrusted.elf_search import with_search_path

_OF_ITSELF = (b"$ORIGIN", b"${ORIGIN}")  # ld.so(8): the folder of the file
# What `sysconfig` and pkg-config may have around a path, or the option of a compiler before it.
_BEFORE = r"(?:(?<![\w./-])|(?<=-[IL]))"
_AFTER = r"(?![\w.-])"
_PREFIX = re.compile(
    r"(?m)^(?:build_time_vars = \{| )'prefix': '((?:/(?!\.{1,2}(?:/|'))[A-Za-z0-9._+@-]+)+)'"
)


def built_for(sysconfig: str) -> str:
    """Return the prefix that a module of `sysconfig` names; empty where it names none that can be told in a text."""
    found = _PREFIX.search(sysconfig)
    return found[1] if found else ""


def moved_text(text: str, old: str, new: str) -> str:
    """Return a text with one folder in the place of another; names that only begin alike stay."""
    return re.sub(_BEFORE + re.escape(old) + _AFTER, lambda _: new, text)


def moved_search_path(text: bytes, old: str, new: str) -> bytes | None:
    """Return a search path of the loader with one folder in the place of another, at the length that it had.

    NULs fill the rest, so that nothing else in the file moves. None where the new path has no room.
    """
    moved = _moved(text, old, new)
    return moved.ljust(len(text), b"\0") if len(moved) <= len(text) else None


def moved_program(data: bytes, search: SearchPath | None, old: str, new: str) -> bytes | None:
    """Return a program that finds the libraries of its own installation in another folder; None where it cannot.

    Args:
        data: the whole file.
        search: where it has the loader look.
        old: the prefix that it was built for; empty where that is not known.
        new: the one that it is moved to.
    """
    text = search.text if search else b""
    if any(mark in text for mark in _OF_ITSELF):
        return data
    library = f"{new}/lib".encode()
    wanted = _moved(text, old, new) if old and text else text
    if library not in wanted.split(b":"):
        wanted = b":".join(filter(None, (library, wanted)))
    if search and len(wanted) <= len(text):
        end = search.place + len(text)
        return data[: search.place] + wanted.ljust(len(text), b"\0") + data[end:]
    return with_search_path(data, wanted)


def _moved(text: bytes, old: str, new: str) -> bytes:
    before = old.encode()
    parts = [
        new.encode() + part[len(before) :] if f"{part.decode('latin-1')}/".startswith(f"{old}/") else part
        for part in text.split(b":")
    ]
    return b":".join(dict.fromkeys(parts))
