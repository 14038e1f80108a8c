"""Deduplication of a freeze's distributions.

A distribution occurs several times only with markers for different environments.
"""

from __future__ import annotations

from msgspec import UNSET, UnsetType
from packaging.markers import InvalidMarker, Marker
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from reprobuild.infra.display import display_text
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


def same_version(first: str | None, second: str | None) -> bool:
    """Return whether two versions are equal under PEP 440.

    Other versions are compared as text.
    """
    try:
        return first == second or (
            first is not None and second is not None and Version(first) == Version(second)
        )
    except InvalidVersion:
        return False


def merge_duplicates(
    requirements: list[Requirement],
) -> tuple[tuple[Requirement, ...], tuple[ParseNote, ...]]:
    """Return each distribution once for each marker, and remarks.

    The remarks are on repetitions.

    Raises:
        SnapshotError: one of them has two versions or two origins.
    """
    by_key: dict[tuple[str, str], Requirement] = {}
    pinned: dict[str, Requirement] = {}
    repeated: list[ParseNote] = []
    # A name without a pin adds no information to a pin of the same name, wherever it is.
    for line in sorted(requirements, key=lambda r: (r.kind == "index" and r.version is None, r.place)):
        name = f"{line.kind}:{line.name}" if line.kind == "leftover" else canonicalize_name(line.name)
        key = name, line.marker or ""
        bare = line.kind == "index" and line.version is None
        first = pinned.get(name) if bare else by_key.get(key)
        if first is None:
            by_key[key] = line
            pinned.setdefault(name, line)
            continue
        same = (first.kind, first.url, first.commit, first.path) == (
            line.kind,
            line.url,
            line.commit,
            line.path,
        )
        if not bare and not (same and same_version(first.version, line.version)):
            early, late = sorted((first.place, line.place))
            raise text.parse_error(
                late,
                f"`{display_text(line.name)}` is pinned again, and differently from {early}",
                "keep the line of the environment that ran, or capture that environment alone",
            )
        if line.hashes and not bare:
            by_key[key] = with_hashes(first, line.hashes)
        repeated.append(text.remark(line.place.file, line.place.line, line.text, f"repeats {first.place}"))
    return tuple(sorted(by_key.values(), key=lambda r: r.place)), tuple(repeated)
