"""Freeze lines with environment markers (`; sys_platform == "win32"`).

They are filtered before any other decision: a line for another environment is not evidence.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
from packaging.markers import InvalidMarker, Marker

from reprobuild.config.overrides import Decisions, is_named
from reprobuild.ecosystems.pypi.requires import UNDECIDABLE, marker_environment
from reprobuild.errors import LockError
from reprobuild.lock.model import Resolution
from reprobuild.resolve.architecture import MACHINES, captured_platform, check_platform
from reprobuild.resolve.interpreter.choice import resolve_interpreter
from reprobuild.resolve.interpreter.evidence import gather_evidence
from reprobuild.resolve.line_resolutions import make_resolution
from reprobuild.snapshot.model import Requirement, Snapshot
from reprobuild.snapshot.parsers.pip_freeze_unique import (
    fulfils,
    is_open,
    line_name,
    same_version,
    with_extras,
)


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
    lines = snapshot.requirements
    if not any(line.marker for line in lines) and len(set(map(line_name, lines))) == len(lines):
        return snapshot, ()
    here: list[Requirement] = []
    rulings: list[Resolution] = []
    for line in lines:
        ruling = None if is_named(line.name, drop) else _rule_marker(line, python, machine)
        if ruling is None:
            here.append(line)
        else:
            rulings.append(ruling)
    here, repeated = _join_lines(here, drop)
    return msgspec.structs.replace(snapshot, requirements=tuple(here)), (*rulings, *repeated)


def select_lines_if_known(
    snapshot: Snapshot, decisions: Decisions
) -> tuple[Snapshot, tuple[Resolution, ...]]:
    """Return `select_environment_lines` for the Python and the machine; the whole snapshot if one is not known."""
    try:
        python = resolve_interpreter(gather_evidence(snapshot), decisions.python).version
        platform = check_platform(decisions.platform) if decisions.platform else captured_platform(snapshot)
    except LockError:
        return snapshot, ()
    return select_environment_lines(snapshot, python, MACHINES[platform][1], decisions.drop)


def _join_lines(
    lines: Sequence[Requirement], drop: Collection[str]
) -> tuple[list[Requirement], list[Resolution]]:
    """Return one pin of each name with the extras of its repetitions, and resolutions of the others.

    Without a pin, all lines of a name stay: each can exclude other versions.
    """
    order = {line.place: number for number, line in enumerate(lines)}
    pins: dict[str, Requirement] = {}
    others: list[Requirement] = []
    rulings: list[Resolution] = []
    for line in sorted(lines, key=is_open):  # the pins first
        name = line_name(line)
        if is_named(line.name, drop) or (is_open(line) and name not in pins):
            others.append(line)
        elif name not in pins:
            pins[name] = line
        else:
            ruling = _rule_repeated_line(line, pins[name])
            if ruling.outcome == "excluded":
                pins[name] = with_extras(pins[name], line)
            rulings.append(ruling)
    return sorted((*pins.values(), *others), key=lambda line: order[line.place]), rulings


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


def _rule_repeated_line(line: Requirement, first: Requirement) -> Resolution:
    repeats = fulfils(first, line) if is_open(line) else _places(first) == _places(line)
    if repeats and (is_open(line) or same_version(first.version, line.version)):
        return make_resolution(line, "excluded", f"it repeats {first.place}", "marker")
    how = (
        f"pins {first.version}, which `{line.text}` does not allow"
        if is_open(line)
        else "pins it differently"
    )
    reason = f"{first.place} is for this environment, too, and {how}; that one is taken"
    return make_resolution(line, "unresolved", reason, "pinned-twice")


def _places(line: Requirement) -> tuple[object, ...]:
    return (
        line.kind, line.url, line.commit, line.path, line.subdirectory, line.sha256, line.hashes, line.digests
    )  # fmt: skip
