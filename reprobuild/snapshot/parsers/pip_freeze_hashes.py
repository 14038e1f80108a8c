"""Hashes of a freeze: `--hash=sha256:...`.

They list the files that a line may be.

`uv export` and `pip-compile --generate-hashes` write them, one below the other, after the line that they are of.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import UNSET

from reprobuild.snapshot.model import Requirement

_HASH = re.compile(r"(?:^|\s+)--hash(?:=|\s+)(?P<algorithm>[A-Za-z0-9_]+):(?P<value>[^\s\\]+)")
_FILES = ("index", "archive")
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")


def split_hashes(line: str) -> tuple[str, tuple[str | None, ...]]:
    """Return a line without its hashes, and each sha256 (hex).

    A hash of another kind is None.
    """
    hashes = tuple(_parse_sha256(match) for match in _HASH.finditer(line))
    return _HASH.sub("", line).strip(), hashes


def _parse_sha256(match: re.Match[str]) -> str | None:
    fits = match["algorithm"].lower() == "sha256" and _SHA256.fullmatch(match["value"])
    return match["value"].lower() if fits else None


class Hashes:
    """The hashes of each requirement, by its index.

    `above` is the index of the last one that was read, if any.
    """

    def __init__(self) -> None:
        self.above: int | None = None
        self._known: dict[int, list[str]] = {}

    def take(self, hashes: Iterable[str | None]) -> None:
        """Keep hashes for the last requirement that was read."""
        if self.above is not None:
            self._known.setdefault(self.above, []).extend(sha256 for sha256 in hashes if sha256)

    def with_hashes(self, requirements: Sequence[Requirement]) -> list[Requirement]:
        """Return the requirements with their hashes."""
        return [
            with_hashes(line, self._known[place]) if self._known.get(place) and line.kind in _FILES else line
            for place, line in enumerate(requirements)
        ]


def with_hashes(line: Requirement, hashes: Sequence[str]) -> Requirement:
    """Return a requirement with accepted hashes.

    A single hash of an archive becomes its own.
    """
    known = tuple(sorted({*hashes, *(line.hashes or ())}))
    if line.kind == "archive" and len(known) == 1 and line.sha256 in (None, known[0]):
        return msgspec.structs.replace(line, sha256=known[0], hashes=UNSET)
    return msgspec.structs.replace(line, hashes=known)
