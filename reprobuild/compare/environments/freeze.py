"""A freeze as facts: its lines for this environment."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product

import msgspec
from packaging.markers import InvalidMarker, Marker

from reprobuild.compare.environments.model import (
    DIGESTS,
    HIDDEN,
    Aspect,
    EnvironmentBuilder,
    Weight,
    normalise_name,
)
from reprobuild.compare.environments.origin import INDEX, address_origin, file_origin
from reprobuild.compare.environments.unread import is_whole
from reprobuild.ecosystems.pypi.requires import UNDECIDABLE, marker_environment
from reprobuild.snapshot.capture_document import CaptureDocument
from reprobuild.snapshot.file_kinds import is_environment
from reprobuild.snapshot.model import Requirement, Snapshot
from reprobuild.snapshot.parsers.pip_freeze_options import OPTION

ELSEWHERE = "{} has lines whose markers are for other environments"
UNDECIDED = "{} does not state whether lines are for its environment, as their markers say"
OPEN = "{} tells no version"
PLACES = "{} has options of pip, which say where packages come from"
EXTRAS = "{} has lines with extras, which ask for more distributions"
CONTRADICTION = "{} has lines that tell a file and the hashes of other files"
# For a snapshot that states no Python or machine.
_PYTHONS = tuple(f"3.{minor}.0" for minor in range(6, 20))
_MACHINES = ("x86_64", "aarch64")
_COMMITS = (40, 64)  # characters of a complete id: it determines the content in any repository


def drop_foreign_lines(
    gathered: EnvironmentBuilder, snapshot: Snapshot, captured: CaptureDocument | None
) -> Snapshot:
    """Return a snapshot without the freeze lines for other Pythons."""
    if not any(line.marker for line in snapshot.requirements):
        return snapshot
    pythons = _possible_versions(snapshot, captured)
    machine = captured.machine.uname[4:5] if captured and captured.machine else ()
    holds = cache(lambda marker: _marker_holds(marker, pythons, machine or _MACHINES))
    requirements = []
    for line in snapshot.requirements:
        outcome = holds(line.marker) if line.marker else True
        if outcome is False:
            gathered.doubt("python", ELSEWHERE, line.text, "note")
            continue
        if outcome is None:
            gathered.doubt("python", UNDECIDED, line.text, _weigh(line.text))
        requirements.append(line)
    return msgspec.structs.replace(snapshot, requirements=tuple(requirements))


def _possible_versions(snapshot: Snapshot, captured: CaptureDocument | None) -> tuple[str, ...]:
    """Return the possible versions of the interpreter."""
    versions = [captured.python.version] if captured and captured.python else []
    versions += [report.python for report in snapshot.reports if report.python]
    if not versions:
        return _PYTHONS
    return (versions[0],) if versions[0].count(".") > 1 else (f"{versions[0]}.0", f"{versions[0]}.99")


def _marker_holds(marker: str, pythons: tuple[str, ...], machines: tuple[str, ...]) -> bool | None:
    """Return whether a marker holds, or None if unknown."""
    try:
        parsed = Marker(marker)
        environments = (marker_environment(*pair) for pair in product(pythons, machines))
        outcomes = {parsed.evaluate({**environment, "extra": ""}) for environment in environments}
    except (*UNDECIDABLE, InvalidMarker):
        return None
    return outcomes.pop() if len(outcomes) == 1 else None


def add_distributions(
    gathered: EnvironmentBuilder, snapshot: Snapshot, captured: CaptureDocument | None
) -> None:
    """Add the freeze, completed from `capture.json`.

    `capture.json` gives missing versions, and the distributions that every freeze leaves out. Without a freeze, the
    requirements are pip's lines of an environment.yml.
    """
    has_freeze = "requirements.txt" not in snapshot.absent
    if has_freeze or snapshot.requirements:
        gathered.begin("python")
        for remark in snapshot.remarks:
            if remark.reason.startswith(OPTION):
                gathered.doubt("python", PLACES, remark.text, _weigh(remark.text))
        for line in snapshot.requirements:
            if line.kind != "leftover":
                gathered.add("python", normalise_name(line.name), dict(_distribution_aspects(gathered, line)))
    for line in snapshot.unlisted:
        gathered.add("python", normalise_name(line.name), dict(_distribution_aspects(gathered, line)))
    if captured and captured.distributions:
        known = gathered.begin("python")
        for distribution in captured.distributions.found:
            name = normalise_name(distribution.name)
            if not has_freeze or name in known or name in HIDDEN:
                gathered.add("python", name, {"version": distribution.version})


def _distribution_aspects(
    gathered: EnvironmentBuilder, line: Requirement
) -> Iterator[tuple[Aspect, str | None]]:
    hashes = line.hashes or ()
    if line.sha256 and hashes and line.sha256 not in hashes:
        gathered.doubt("python", CONTRADICTION, line.text)
        hashes = (*hashes, line.sha256)
    elif line.sha256:
        hashes = (line.sha256,)
    if line.kind == "index" and line.version is None:
        gathered.doubt("python", OPEN, line.text, _weigh(line.text))
    elif line.extras and not is_environment(line.place.file):  # see `list_unread`
        gathered.doubt("python", EXTRAS, f"{normalise_name(line.name)}[{','.join(line.extras)}]")
    yield "version", line.version
    yield "sha256", " ".join(sorted(hashes))
    stated = dict(digest.split(":", 1) for digest in line.digests or ())
    for algorithm in DIGESTS:
        yield algorithm, stated.get(algorithm)
    yield "origin", _line_origin(line)
    if line.kind == "archive" and line.url and not line.url.endswith(".whl"):
        yield "subdirectory", line.subdirectory or "."


def _weigh(text: str) -> Weight:
    """Return the weight of a doubt: in equal texts that are shortened, a difference can hide."""
    return "stated" if is_whole(text) else "hidden"


def _line_origin(line: Requirement) -> str:
    """Return the origin of a frozen distribution, or "".

    It is empty if the origin determines nothing about the file.
    """
    if line.kind == "index":
        return INDEX
    if line.kind != "archive":
        return ""  # a repository is compared as such, and the path of a local build means nothing elsewhere
    return address_origin(line.url) if line.url else file_origin(line.path or "")


def add_commits(gathered: EnvironmentBuilder, snapshot: Snapshot) -> None:
    """Add the repositories of the freeze."""
    for line in snapshot.requirements:
        if line.kind in ("vcs", "editable"):
            gathered.add("source", normalise_name(line.name), dict(_commit_aspects(line)))


def _commit_aspects(line: Requirement) -> Iterator[tuple[Aspect, str | None]]:
    yield "commit", line.commit
    if line.url:
        yield "subdirectory", line.subdirectory or "."
        yield "install", "editable" if line.kind == "editable" else "copy"
        if len(line.commit or "") not in _COMMITS:
            yield "origin", address_origin(line.url)
