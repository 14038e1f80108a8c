"""A proposal for the Python of a snapshot that does not show it: the newest that its facts allow.

It is only proposed, as an option to copy: a version that nobody captured is the user's decision.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterator
from functools import cache
from importlib.resources import files

from msgspec import Struct
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from reprobuild.infra.untrusted.decode import decode_toml

_PATCHES = 40  # CPython has fewer patch releases of a minor version


class PythonRelease(Struct, frozen=True, forbid_unknown_fields=True):
    """One row of the table `python_releases.toml`, which documents the fields."""

    minor: str
    day: datetime.date
    pep: int


class PythonProposal(Struct, frozen=True, kw_only=True):
    """A minor version, `X.Y`, and the facts that it is chosen by."""

    minor: str
    reason: str


class PythonLimits(Struct, frozen=True, kw_only=True):
    """The facts that limit the Python of a snapshot.

    `moment` is a date and time in UTC, as `2024-01-15T00:00:00Z`, and `date` the same as the user or the run has it;
    `requires` is the range of the imported format. All three are empty if unknown. `pinned` are the `X.Y` with a file
    for every pinned release; None if no index was asked. `locked` is set if each line has a version: an open line waits
    for a date, which limits Python, too.
    """

    moment: str = ""
    date: str = ""
    requires: str = ""
    locked: bool = False
    pinned: Collection[str] | None = None


def propose_python(limits: PythonLimits) -> PythonProposal | None:
    """Return the newest minor version that all limits allow.

    It is None if it is the newest of all, and not the only, unless a date or the range of a lock file leads to it.
    """
    releases = read_python_releases()
    allowed = [release.minor for release in releases if _is_allowed(release, limits)]
    has_range = limits.locked and bool(limits.requires) and _parse_range(limits.requires) is not None
    is_free = not limits.moment and not has_range
    if not allowed or (allowed[-1] == releases[-1].minor and len(allowed) > 1 and is_free):
        return None
    return PythonProposal(minor=allowed[-1], reason=", ".join(_reasons(limits)))


def is_allowed_by(minor: str, requires: str) -> bool:
    """Return whether a range of Python has a patch release of a minor version; an invalid range excludes none."""
    specifier = _parse_range(requires)
    return specifier is None or any(specifier.contains(f"{minor}.{patch}") for patch in range(_PATCHES))


def _parse_range(requires: str) -> SpecifierSet | None:
    try:
        return SpecifierSet(requires)
    except InvalidSpecifier:
        return None


@cache
def read_python_releases() -> tuple[PythonRelease, ...]:
    """Return the table, oldest first."""
    raw = files("reprobuild.resolve.interpreter").joinpath("python_releases.toml").read_bytes()
    table = decode_toml(raw, dict[str, tuple[PythonRelease, ...]])["release"]
    return tuple(sorted(table, key=lambda release: release.day))


def _is_allowed(release: PythonRelease, limits: PythonLimits) -> bool:
    return (
        (not limits.moment or f"{release.day}T00:00:00Z" < limits.moment)
        and (limits.pinned is None or release.minor in limits.pinned)
        and (not limits.requires or is_allowed_by(release.minor, limits.requires))
    )


def _reasons(limits: PythonLimits) -> Iterator[str]:
    if limits.date:
        yield f"released by {limits.date}"
    if limits.requires and _parse_range(limits.requires) is not None:
        yield f"in the range {limits.requires}"
    if limits.pinned is not None:
        yield "with a file for each pinned release"
