"""Resolutions of lines, and of those that lead to no input of the lock."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from reprobuild.config.overrides import is_named
from reprobuild.lock.model import Outcome, Resolution
from reprobuild.resolve.python.requirement_forms import suggest_requirement
from reprobuild.snapshot.file_kinds import field_of, is_environment
from reprobuild.snapshot.model import CondaRequest, ParseNote, Requirement, Snapshot
from reprobuild.snapshot.parsers.conda_list import ASKED

UNREAD = "unread-line"  # the class of such lines
CONDA_REQUEST = "conda-request"  # that of packages which a file asks conda for
# What answers a request of conda.
EXPORT = "run `conda env export > environment.yml` in the environment that ran"
AS_OF = "--as-of DATE chooses the packages that conda's channels had on that day"
_LISTS = ("requirements", "packages")  # of Snapshot; each line of them is a package


def make_resolution(line: Requirement, outcome: Outcome, reason: str, kind: str = "") -> Resolution:
    """Return the resolution of a line."""
    return Resolution(
        file=line.place.file, line=line.place.line, subject=line.name, outcome=outcome,
        reason=reason, kind=kind, captured=line.text,
    )  # fmt: skip


def unread_remarks(snapshot: Snapshot) -> list[ParseNote]:
    """Return the remarks on package list lines that are not understood; such a line may have named a package.

    A request for a package of conda is none of them: see `open_conda_requests`.
    """
    conda = {package.place.file for package in snapshot.conda}
    if "requirements.txt" in snapshot.absent:  # no other file explains an environment.yml
        conda |= {remark.place.file for remark in snapshot.remarks if is_environment(remark.place.file)}
    return [
        remark
        for remark in snapshot.remarks
        if not remark.understood and remark.text and remark.reason != ASKED
        and (field_of(remark.place.file) in _LISTS or remark.place.file in conda)
    ]  # fmt: skip


def rule_unread(snapshot: Snapshot) -> list[Resolution]:
    """Return resolutions for package list lines that are not understood, and for requests of conda."""
    unread = [
        Resolution(
            file=remark.place.file, line=remark.place.line, subject=remark.place.file, outcome="unresolved",
            reason=f"{remark.reason}: {remark.text}{_suggest(remark.text)}", kind=UNREAD,
        )
        for remark in unread_remarks(snapshot)
    ]  # fmt: skip
    return [*unread, *rule_conda_requests(snapshot)]


def open_conda_requests(snapshot: Snapshot) -> list[CondaRequest]:
    """Return the requests for conda that no list of installed packages answers."""
    return [request for request in snapshot.conda_requests if request.is_open]


def rule_conda_requests(snapshot: Snapshot) -> list[Resolution]:
    """Return a resolution for each open request."""
    return [
        Resolution(
            file=request.place.file, line=request.place.line, subject=request.name, outcome="unresolved",
            kind=CONDA_REQUEST,
            reason=f"conda was asked for it, and no file says what conda installed: {request.text}",
        )
        for request in open_conda_requests(snapshot)
    ]  # fmt: skip


def _suggest(text: str) -> str:
    suggestion = suggest_requirement(text)
    return "" if suggestion is None else f"; did you mean {suggestion}?"


def rule_dropped(snapshot: Snapshot, drop: Collection[str]) -> list[Resolution]:
    """Return resolutions for the lines that a decision drops."""
    return [
        make_resolution(line, "excluded", "dropped by decision", "decision")
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
