"""Names in the headers of a git diff.

They may be C-quoted, or have prefixes or blanks.
"""

from __future__ import annotations

import re

_ESCAPES = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}
_QUOTED = re.compile(rb'"((?:[^"\\]|\\.)*)"')
# a/ b/ by default; c/ i/ o/ w/ with diff.mnemonicPrefix; 1/ 2/ with --no-index.
_PREFIX = re.compile(r"^[abciow12]/(?=.)", re.DOTALL)


def parse_header_names(rest: bytes) -> tuple[str, str] | None:
    """Return both names after `diff --git `, with prefixes.

    Return None if only other lines have them.

    Unquoted names with blanks have no end of their own. As in git, they are separated only if both are the same name; a
    rename repeats them on lines of their own.
    """
    if match := _QUOTED.match(rest):
        return _decode_name(_unquote(match[1])), parse_file_name(rest[match.end() :].removeprefix(b" ")) or ""
    if rest.endswith(b'"') and (at := rest.find(b' "')) > 0:
        return _decode_name(rest[:at]), parse_file_name(rest[at + 1 :]) or ""
    middle = len(rest) // 2
    if rest[middle : middle + 1] == b" ":
        old, new = _decode_name(rest[:middle]), _decode_name(rest[middle + 1 :])
        if old == new or (_PREFIX.match(old) and _PREFIX.match(new) and old[2:] == new[2:]):
            return old, new
    if rest.count(b" ") == 1:
        first, second = rest.split(b" ")
        return _decode_name(first), _decode_name(second)
    return None


def parse_file_name(written: bytes) -> str | None:
    """Return the name of a header line; None for /dev/null."""
    # git ends a name that has blanks with a tab, so that patch(1) does not take a time stamp from it.
    name = written.removesuffix(b"\t")
    if match := _QUOTED.fullmatch(name):
        return _decode_name(_unquote(match[1]))
    return None if name == b"/dev/null" else _decode_name(name)


def has_prefixes(header: tuple[str, str] | None) -> bool:
    """Return whether the names of a diff have `a/` and `b/`.

    With `diff.noprefix`, both names of a header are equal.
    """
    return header is None or bool(header[0] != header[1] and all(map(_PREFIX.match, header)))


def strip_prefix(name: str | None) -> str | None:
    """Return a name without its `a/` or `b/`, if any."""
    return name and _PREFIX.sub("", name, count=1)


def is_safe_path(name: str) -> bool:
    """Return whether a path is inside the repository and not in `.git`."""
    parts = re.split(r"[/\\]", name)
    inside = not name.startswith("/") and not re.match(r"[A-Za-z]:[/\\]", name) and "\0" not in name
    return (
        bool(name)
        and inside
        and ".." not in parts
        and ".git" not in (part.rstrip(". ").lower() for part in parts)
    )


def _unquote(body: bytes) -> bytes:
    def one(match: re.Match[bytes]) -> bytes:
        code = match[1]
        return bytes([int(code, 8) & 0xFF]) if code[:1].isdigit() else _ESCAPES.get(code, code)

    return re.sub(rb"\\([0-7]{3}|.)", one, body, flags=re.DOTALL)


def _decode_name(name: bytes) -> str:
    # A name is bytes to git; other bytes than UTF-8 are shown as escapes, which differ from every real path.
    return name.decode("utf-8", "backslashreplace")
