"""Rows of a list of requirements as others wrote them: long ones, and those that name another list."""

from __future__ import annotations

import re
from collections.abc import Iterable

LONGEST = 1000  # characters of a line: `display_text` cuts longer ones
# pip takes an option by each prefix that no other option has, and several options in one row.
_OTHER_LIST = re.compile(r"(?:-\S*\s(?:.*\s)?)?(?:-[rc]|--requirem[a-z]*|--cons[a-z]*).*")
_LEFTOVER = re.compile(r"-[A-Za-z0-9._-]+={2,3}\S+")  # of an interrupted installation: `-rpcio==1.2`
_SHA256 = re.compile(r"sha256:[0-9a-f]{64}")
_HASH = re.compile(r"(?:sha256:[0-9a-f]{64}|(?!sha256:)[a-z0-9_]{1,20}:[0-9a-f]{32,128})")


def names_other_list(row: str) -> bool:
    """Return whether a row has an option that names another list: requirements, or constraints."""
    return row.startswith("-") and bool(_OTHER_LIST.fullmatch(row)) and not _LEFTOVER.fullmatch(row)


def split_row(row: str) -> list[str]:
    """Return a row without the blanks around it; one that is too long for a line without comment, as several lines.

    Only the hashes of a requirement become lines of their own.
    """
    stripped = row.strip()
    if len(stripped) <= LONGEST or stripped.startswith("#"):
        return [stripped]
    bare = stripped.partition(" #")[0].rstrip()
    if len(bare) <= LONGEST:
        return [bare]
    goes_on = bare.endswith("\\")
    head, *hashes = (part.strip() for part in bare.removesuffix("\\").split(" --hash="))
    if not all(map(_HASH.fullmatch, hashes)):
        return [bare]
    rows = continued([head, *map(hash_row, hashes)])
    return [*rows[:-1], f"{rows[-1]} \\"] if goes_on else rows


def continued(rows: list[str]) -> list[str]:
    """Return rows as one line of pip: each but the last goes on in the next."""
    return [f"{row} \\" for row in rows[:-1]] + rows[-1:]


def hash_row(value: str) -> str:
    """Return the row of a hash (`ALGORITHM:HEX`) below its requirement."""
    return f"    --hash={value}"


def valid_hashes(hashes: Iterable[str]) -> list[str]:
    """Return the hashes that have the form of one (`ALGORITHM:HEX`), each once."""
    return list(filter(_HASH.fullmatch, dict.fromkeys(value.lower() for value in hashes)))


def comparable_hashes(hashes: Iterable[str]) -> list[str]:
    """Return each sha256 of some hashes; without any, the others, for which a lock asks."""
    known = valid_hashes(hashes)
    return list(filter(_SHA256.fullmatch, known)) or known
