"""Freeze lines with environment markers (`; sys_platform == "win32"`).

They are filtered before any other decision: a line for another environment is not evidence.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec
from packaging.markers import InvalidMarker, Marker
from packaging.utils import canonicalize_name

from reprobuild.config.overrides import is_named
from reprobuild.ecosystems.pypi.requires import UNDECIDABLE, marker_environment
from reprobuild.lock.model import Resolution
from reprobuild.resolve.line_resolutions import make_resolution
from reprobuild.snapshot.model import Requirement, Snapshot
from reprobuild.snapshot.parsers.pip_freeze_unique import same_version


def select_environment_lines(
    snapshot: Snapshot, python: str, machine: str, drop: Collection[str] = ()
) -> tuple[Snapshot, tuple[Resolution, ...]]:
    """Return the snapshot for one environment, and the other lines.

    The other lines have resolutions.

    Args:
        snapshot: the captured environment; its digest stays.
        python: the version of the image's interpreter.
        machine: in the kernel's spelling, `x86_64`.
        drop: names of distributions that the user leaves out.
    """
    if not any(line.marker for line in snapshot.requirements):
        return snapshot, ()
    here: dict[str, Requirement] = {}
    rulings: list[Resolution] = []
    for line in snapshot.requirements:
        ruling = None if is_named(line.name, drop) else _rule_marker(line, python, machine)
        key = f"{line.kind}:{line.name}" if line.kind == "leftover" else canonicalize_name(line.name)
        if ruling is None and (ruling := _rule_repeated_line(line, here.get(key))) is None:
            here[key] = line
        if ruling is not None:
            rulings.append(ruling)
    return msgspec.structs.replace(snapshot, requirements=tuple(here.values())), tuple(rulings)


def _rule_marker(line: Requirement, python: str, machine: str) -> Resolution | None:
    if not line.marker:
        return None
    where = f"Python {python} on Linux and {machine}"
    try:
        if Marker(line.marker).evaluate({**marker_environment(python, machine), "extra": ""}):
            return None
    except (*UNDECIDABLE, InvalidMarker):
        reason = f"nobody can tell whether it is for {where}: {line.marker}"
        return make_resolution(line, "unresolved", reason, "unread-marker")
    return make_resolution(
        line, "excluded", f"it is for other environments than {where}: {line.marker}", "marker"
    )


def _rule_repeated_line(line: Requirement, first: Requirement | None) -> Resolution | None:
    if first is None:
        return None
    places = [
        (item.kind, item.url, item.commit, item.path, item.sha256, item.hashes, item.digests)
        for item in (first, line)
    ]
    if places[0] == places[1] and same_version(first.version, line.version):
        return make_resolution(line, "excluded", f"it repeats {first.place}", "marker")
    reason = f"{first.place} is for this environment, too, and pins it differently; that one is taken"
    return make_resolution(line, "unresolved", reason, "pinned-twice")
