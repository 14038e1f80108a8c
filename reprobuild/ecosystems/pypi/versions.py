"""Versions as PEP 440 compares them, and as the names of files spell them."""

from __future__ import annotations

from collections.abc import Iterable

from packaging.version import InvalidVersion, Version

_NEAR = 2  # on each side


def same_version(found: str, captured: str) -> bool:
    """Tell whether two versions are equal by PEP 440, or by their text where they are no such versions."""
    if found == captured:
        return True
    try:
        return Version(found) == Version(captured)
    except InvalidVersion:
        return False


def is_valid(version: str) -> bool:
    """Tell whether a version is one of PEP 440."""
    try:
        Version(version)
    except InvalidVersion:
        return False
    return True


def public(version: str) -> str:
    """Return a version without its local label: `2.3.0` of `2.3.0+cpu`."""
    return version.partition("+")[0]


def nearest(versions: Iterable[str], captured: str) -> list[str]:
    """Return the versions that could stand in for one: with other labels, else the nearest ones, in order."""
    known = sorted({version for version in versions if is_valid(version)}, key=Version)
    if labelled := [version for version in known if same_version(public(version), public(captured))]:
        return labelled
    if not is_valid(captured):
        return known[-3:]
    lower = [version for version in known if Version(version) < Version(captured)]
    higher = known[len(lower) :]
    if not lower or not higher:
        return lower[-3:] or higher[:3]
    return [*lower[-_NEAR:], *higher[:_NEAR]]
