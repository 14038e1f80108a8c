"""Versions compared by PEP 440, and spelt in file names."""

from __future__ import annotations

from collections.abc import Iterable

from packaging.version import InvalidVersion, Version

_NEAR = 2  # on each side


def same_version(first: str, second: str) -> bool:
    """Return whether two versions are equal by PEP 440.

    Invalid versions are compared as text.
    """
    if first == second:
        return True
    try:
        return Version(first) == Version(second)
    except InvalidVersion:
        return False


def is_valid(version: str) -> bool:
    """Return whether a version is valid by PEP 440."""
    try:
        Version(version)
    except InvalidVersion:
        return False
    return True


def public_version(version: str) -> str:
    """Return a version without its local label: `2.3.0` of `2.3.0+cpu`."""
    return version.partition("+")[0]


def nearest_versions(versions: Iterable[str], captured: str) -> list[str]:
    """Return possible substitutes of a version, in order.

    They are versions with other labels, else the nearest ones.
    """
    known = sorted({version for version in versions if is_valid(version)}, key=Version)
    if labelled := [
        version for version in known if same_version(public_version(version), public_version(captured))
    ]:
        return labelled
    if not is_valid(captured):
        return known[-3:]
    lower = [version for version in known if Version(version) < Version(captured)]
    higher = known[len(lower) :]
    if not lower or not higher:
        return lower[-3:] or higher[:3]
    return [*lower[-_NEAR:], *higher[:_NEAR]]
