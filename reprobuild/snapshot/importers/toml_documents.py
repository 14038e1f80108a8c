"""TOML documents of package managers."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from reprobuild.errors import SnapshotError
from reprobuild.infra.display import display_text
from reprobuild.snapshot import text

MOST_DOTS = 32  # of a key: `tomllib` takes quadratic time for them
_TOKEN = re.compile(r"\"{3}|'{3}|[\"'#.=,{}\[\]\n]")
# The end of each string and comment; an escaped character is no end.
_ENDS = {
    '"""': re.compile(r"\\.|\"{3,5}", re.DOTALL),
    "'''": re.compile(r"'{3,5}"),
    '"': re.compile(r"\\.|[\"\n]", re.DOTALL),
    "'": re.compile(r"['\n]"),
    "#": re.compile(r"\n"),
}


def check_keys(content: str, file: str) -> None:
    """Refuse TOML with a key of many parts, before it is read.

    Raises:
        SnapshotError: a key has more than `MOST_DOTS` dots.
    """
    dots, place = 0, 0
    while token := _TOKEN.search(content, place):
        place = token.end()
        if token[0] == ".":
            dots += 1
        elif token[0] not in _ENDS:
            dots = 0
        elif end := _find_end(content, token[0], place):
            dots, place = dots * (token[0] != "#"), end
        else:
            return
        if dots > MOST_DOTS:
            raise SnapshotError(
                f"{display_text(file)} has a key of more than {MOST_DOTS} parts",
                hint="look at what wrote it; a key of a lock has some five parts",
            )


def _find_end(content: str, start: str, place: int) -> int:
    """Return the place behind a string or comment; 0 if it does not end."""
    for match in _ENDS[start].finditer(content, place):
        if match[0][0] != "\\":
            return match.end()
    return 0


def load_toml(data: bytes, file: str) -> dict[str, Any]:
    """Return a TOML document.

    Raises:
        SnapshotError: it is not text, or not TOML.
    """
    content = text.decode(data, file)
    text.check_values(content, file)
    check_keys(content, file)
    try:
        document: dict[str, Any] = msgspec.toml.decode(content)
    except (msgspec.MsgspecError, ValueError, RecursionError) as err:
        raise SnapshotError(
            f"{display_text(file)} is not TOML: {display_text(str(err))}",
            hint="look at what wrote it; a merge may have left its marks",
        ) from None
    return document


def tables(document: Any, key: str) -> list[dict[str, Any]]:
    """Return the array of tables of a key; entries of another type are left out."""
    value = document.get(key) if isinstance(document, dict) else None
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def table(document: Any, key: str) -> dict[str, Any]:
    """Return the table of a key; empty if there is none."""
    value = document.get(key) if isinstance(document, dict) else None
    return value if isinstance(value, dict) else {}


def string(document: Any, key: str) -> str:
    """Return the string of a key; empty if there is none."""
    value = document.get(key) if isinstance(document, dict) else None
    return value if isinstance(value, str) else ""
