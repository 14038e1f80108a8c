"""Resolutions of lines that lead to no input of the lock."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from reprobuild.config.overrides import is_named
from reprobuild.lock.model import Resolution
from reprobuild.snapshot.file_kinds import field_of, is_environment
from reprobuild.snapshot.model import Snapshot

_LISTS = ("requirements", "packages")  # of Snapshot; each line of them is a package


def rule_unread(snapshot: Snapshot) -> list[Resolution]:
    """Return resolutions for package list lines that are not understood.

    Such a line may have named a package.
    """
    conda = {package.place.file for package in snapshot.conda}
    if "requirements.txt" in snapshot.absent:  # no other file explains an environment.yml
        conda |= {remark.place.file for remark in snapshot.remarks if is_environment(remark.place.file)}
    return [
        Resolution(
            file=remark.place.file, line=remark.place.line, subject=remark.place.file, outcome="unresolved",
            reason=f"{remark.reason}: {remark.text}", kind="unread-line",
        )
        for remark in snapshot.remarks
        if not remark.understood and remark.text
        and (field_of(remark.place.file) in _LISTS or remark.place.file in conda)
    ]  # fmt: skip


def rule_dropped(snapshot: Snapshot, drop: Collection[str]) -> list[Resolution]:
    """Return resolutions for the lines that a decision drops."""
    return [
        _exclude_line(line.place.file, line.place.line, line.name, "dropped by decision", line.text)
        for line in (*snapshot.requirements, *snapshot.unlisted)
        if is_named(line.name, drop)
    ]


def exclude_unlisted(rulings: Iterable[Resolution], snapshot: Snapshot) -> tuple[Resolution, ...]:
    """Exclude unresolved lines that are not in the freeze.

    A snapshot without capture.json has no such lines.
    """
    beside = {(line.place.file, line.name) for line in snapshot.unlisted}
    return tuple(
        msgspec.structs.replace(ruling, outcome="excluded", kind="unlisted")
        if ruling.outcome == "unresolved" and (ruling.file, ruling.subject) in beside
        else ruling
        for ruling in rulings
    )


def _exclude_line(file: str, line: int, subject: str, reason: str, captured: str) -> Resolution:
    return Resolution(
        file=file, line=line, subject=subject, outcome="excluded", reason=reason, captured=captured, kind="decision"
    )  # fmt: skip
