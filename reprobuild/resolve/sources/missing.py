"""Resolutions of unavailable sources.

One run names all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from packaging.utils import canonicalize_name

from reprobuild.lock.model import Resolution
from reprobuild.resolve.environment.path_mapping import MappedRepository
from reprobuild.resolve.sources.fetch_commit import NotFetchedError
from reprobuild.resolve.sources.patching import names_of
from reprobuild.snapshot.model import Patch, Requirement
from reprobuild.snapshot.parsers.capture_json import FILE

KIND = "unreachable-source"


def rule_line(line: Requirement, err: NotFetchedError, patches: Sequence[Patch]) -> tuple[Resolution, ...]:
    """Return resolutions for a freeze line and its diffs."""
    diffs = [patch for patch in patches if canonicalize_name(patch.name) in names_of(line)]
    ruling = _make_resolution(line.place.file, line.place.line, line.name, _failure_reason(err), line.text)
    return (ruling, *_rule_diffs(diffs, line.name))


def rule_captured(
    placed: MappedRepository, err: NotFetchedError, patches: Sequence[Patch]
) -> tuple[Resolution, ...]:
    """Return resolutions for a captured repository and its diff."""
    line = placed.line
    file, number, text = (line.place.file, line.place.line, line.text) if line else (FILE, 0, "")
    diffs = [patch for patch in patches if patch.file == placed.repository.diff.file]
    ruling = _make_resolution(file, number, line.name if line else placed.name, _failure_reason(err), text)
    return (ruling, *_rule_diffs(diffs, placed.name))


def rule_diff(patch: Patch, err: NotFetchedError) -> tuple[Resolution, ...]:
    """Return the resolution of a diff; the user named its repository."""
    return (_make_resolution(patch.file, 0, patch.name, _failure_reason(err)),)


def _rule_diffs(patches: Sequence[Patch], name: str) -> Iterator[Resolution]:
    for patch in patches:
        yield _make_resolution(patch.file, 0, patch.name, f"it changes {name}, whose commit cannot be had")


def _failure_reason(err: NotFetchedError) -> str:
    return "; ".join(line.strip() for line in f"{err}\n{err.hint}".splitlines())


def _make_resolution(file: str, line: int, subject: str, reason: str, captured: str = "") -> Resolution:
    return Resolution(
        file=file, line=line, subject=subject, outcome="unresolved", reason=reason, kind=KIND, captured=captured
    )  # fmt: skip
