"""Deduplication of a freeze's distributions.

A distribution occurs several times only with markers for different environments.
"""

from __future__ import annotations

from msgspec import UNSET, UnsetType
from packaging.markers import InvalidMarker, Marker
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from reprobuild.infra.display import shown
from reprobuild.snapshot import text
from reprobuild.snapshot.model import ParseNote, Requirement
from reprobuild.snapshot.parsers.pip_freeze_hashes import with_hashes


def read_marker(written: str | None) -> str | UnsetType:
    """Return a marker (PEP 508) as `packaging` writes it, or UNSET.

    It is UNSET if it is absent or cannot be read.
    """
    if written is None:
        return UNSET
    try:
        return str(Marker(written))
    except (InvalidMarker, RecursionError):
        return UNSET


def same_version(one: str | None, other: str | None) -> bool:
    """Return whether two versions are equal under PEP 440.

    Other versions are compared as text.
    """
    try:
        return one == other or (one is not None and other is not None and Version(one) == Version(other))
    except InvalidVersion:
        return False


def unique(found: list[Requirement]) -> tuple[tuple[Requirement, ...], tuple[ParseNote, ...]]:
    """Return each distribution once for each marker, and remarks.

    The remarks are on repetitions.

    Raises:
        SnapshotError: one of them has two versions or two origins.
    """
    kept: dict[tuple[str, str], Requirement] = {}
    pinned: dict[str, Requirement] = {}
    repeated: list[ParseNote] = []
    # A name without a pin adds no information to a pin of the same name, wherever it is.
    for one in sorted(found, key=lambda r: (r.kind == "index" and r.version is None, r.place)):
        name = f"{one.kind}:{one.name}" if one.kind == "leftover" else canonicalize_name(one.name)
        key = name, one.marker or ""
        bare = one.kind == "index" and one.version is None
        first = pinned.get(name) if bare else kept.get(key)
        if first is None:
            kept[key] = one
            pinned.setdefault(name, one)
            continue
        same = (first.kind, first.url, first.commit, first.path) == (one.kind, one.url, one.commit, one.path)
        if not bare and not (same and same_version(first.version, one.version)):
            early, late = sorted((first.place, one.place))
            raise text.broken(
                late,
                f"`{shown(one.name)}` is pinned again, and differently from {early}",
                "keep the line of the environment that ran, or capture that environment alone",
            )
        if one.hashes and not bare:
            kept[key] = with_hashes(first, one.hashes)
        repeated.append(text.remark(one.place.file, one.place.line, one.text, f"repeats {first.place}"))
    return tuple(sorted(kept.values(), key=lambda r: r.place)), tuple(repeated)
