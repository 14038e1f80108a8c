"""Shell quoting: removal of quotes, and values of many lines."""

from __future__ import annotations

import re
from typing import NamedTuple

_ESCAPES = {
    b"n": b"\n",
    b"t": b"\t",
    b"r": b"\r",
    b"a": b"\a",
    b"b": b"\b",
    b"e": b"\x1b",
    b"f": b"\f",
    b"v": b"\v",
}


class Unquoted(NamedTuple):
    """A value without its quotes.

    `open`: a quote is never closed. `comment`: the text after the value.
    """

    text: str
    open: bool = False
    comment: str = ""


def unquote(quoted: str) -> Unquoted:
    """Return the value that a shell would give to `NAME=quoted`.

    Expansions are not done. An unquoted value with blanks, which no shell prints but people write, is kept whole.
    """
    if not quoted.startswith(('"', "'", "$'")):
        bare, hash_, comment = quoted.partition(" #")
        return Unquoted(bare.rstrip() if hash_ else bare, comment=hash_.strip() + comment)
    out: list[str] = []
    at = 0
    while at < len(quoted):
        part, at = _parse_part(quoted, at)
        if part is None:
            return Unquoted("".join(out) + quoted[at:], open=True)
        if part == "" and at < len(quoted) and quoted[at].isspace():
            break
        out.append(part)
    rest = quoted[at:].strip()
    return Unquoted("".join(out), comment=rest if rest.startswith("#") else "")


def _parse_part(quoted: str, at: int) -> tuple[str | None, int]:
    """Return one quoted or bare part and its end.

    The part is None for a quote that is never closed.
    """
    if quoted[at] == "'":
        end = quoted.find("'", at + 1)
        return (None, at + 1) if end < 0 else (quoted[at + 1 : end], end + 1)
    if quoted[at] == '"':
        match = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL).match(quoted, at)
        return (re.sub(r"\\([$`\"\\\n])", r"\1", match[1]), match.end()) if match else (None, at + 1)
    if quoted.startswith("$'", at):
        match = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL).match(quoted, at)
        return (_unquote_ansi(match[1]), match.end()) if match else (None, at + 2)
    match = re.compile(r"(?:[^\s'\"\\]|\\.)*", re.DOTALL).match(quoted, at)
    end = match.end() if match else at
    if end == at and not quoted[at].isspace():
        return quoted[at], at + 1  # a lone backslash at the end
    return re.sub(r"\\(.)", r"\1", quoted[at:end], flags=re.DOTALL), end


def _unquote_ansi(body: str) -> str:
    r"""Undo `$'...'` quoting.

    It has \n, \t, \\, \', and octal or hexadecimal bytes, which form UTF-8 characters.
    """

    def one(match: re.Match[bytes]) -> bytes:
        octal, hexadecimal, plain = match.groups()
        if plain is None:
            return bytes([int(octal, 8) & 0xFF if octal else int(hexadecimal, 16)])
        return _ESCAPES.get(plain, plain)

    raw = re.sub(rb"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|(.))", one, body.encode(), flags=re.DOTALL)
    return raw.decode("utf-8", "backslashreplace")


_PAIRS = (("(", ")"), ("[", "]"), ("{", "}"))
_LONGEST = 300  # lines of one value in brackets


def suggests_continuation(value: str) -> bool:
    """Return whether a first line suggests that others follow.

    The signs are an open quote or bracket, a PEM header, a backslash, or an empty value.
    """
    return (
        not value.strip()
        or value.endswith("\\")
        or value.startswith("-----BEGIN ")
        or value.count('"') % 2 == 1
        or any(value.count(a) > value.count(b) for a, b in _PAIRS)
    )


def count_value_rows(rows: list[str], start: int, value: str) -> int:
    """Return the number of rows of a bracketed or PEM value.

    It is counted from `start`, and 1 for other values.
    """
    if value.startswith("-----BEGIN "):
        ends = (
            i for i in range(start + 1, min(start + _LONGEST, len(rows))) if rows[i].startswith("-----END ")
        )
        return next(ends, start) - start + 1
    first = value.lstrip()[:1]
    pair = next((pair for pair in _PAIRS[1:] if pair[0] == first), None)
    if pair is None:
        return 1
    depth = value.count(pair[0]) - value.count(pair[1])
    for i in range(start + 1, min(start + _LONGEST, len(rows))):
        if depth <= 0:
            break
        depth += rows[i].count(pair[0]) - rows[i].count(pair[1])
        if depth <= 0:
            return i - start + 1
    return 1
