"""Sections on the round trip.

They are deviations, variables, every captured line, and unmet requirements.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from reprobuild.lock.model import OF_NO_LINE, Lock, Outcome, Resolution
from reprobuild.lock.requirements import find_conflicts
from reprobuild.report.html.components import Section
from reprobuild.report.html.plot import OUTCOMES, Bar, plot_outcomes
from reprobuild.snapshot.file_kinds import field_of
from reprobuild.verify.verdict import Code, RoundTripDifference, Verdict

MANY = 12  # deviations in one table
# docs/round-trip.md has them at length.
CODES: dict[Code, str] = {
    "unexplained": "nothing explains it", "replaced-version": "another version stands in, and was accepted",
    "solved-version": "no version was captured, and one was chosen as of a date",
    "unrecoverable": "nothing stands in for it, and that was accepted", "decision": "you dropped or set it",
    "base-provided": "the base or the environment brings it", "host-only": "it belongs to the host",
    "secret-withheld": "a secret; its value was never kept", "not-needed": "nothing that was asked for needs it",
    "site-variable": "a variable of the session, the scheduler, the modules or the fabric",
    "not-baked": "a variable that is not known to change the computation",
    "path-rewritten": "a directory of the captured machine, which has another place in the image, or none",
    "other-spelling": "the same, written differently",
}  # fmt: skip


class DifferenceGroup(Struct, frozen=True, kw_only=True):
    """The differences of one code, and its meaning."""

    code: Code
    meaning: str
    differences: Sequence[RoundTripDifference]


class RoundTripView(Struct, frozen=True, kw_only=True):
    """The answer of the round trip, and its differences by reason."""

    answer: str
    groups: Sequence[DifferenceGroup]


def view_round_trip(verdict: Verdict) -> Section:
    """Return the captured lines that the image does not repeat."""
    by_code: dict[Code, list[RoundTripDifference]] = {}
    for difference in verdict.differences:
        by_code.setdefault(difference.code, []).append(difference)
    groups = [
        DifferenceGroup(code=code, meaning=meaning, differences=by_code[code])
        for code, meaning in CODES.items()
        if code in by_code
    ]
    view = RoundTripView(answer=verdict.round_trip, groups=groups)
    return Section(id="round-trip", title="Round trip", view=view)


class DeviationsView(Struct, frozen=True, kw_only=True):
    """The accepted deviations; many of them are folded by kind."""

    deviations: Sequence[Resolution]
    groups: Sequence[tuple[str, Sequence[Resolution]]]
    folded: bool
    many: int = MANY


def view_deviations(lock: Lock) -> Section:
    """Return the accepted deviations."""
    groups: dict[str, list[Resolution]] = {}
    for ruling in lock.deviations:
        groups.setdefault(f"{ruling.outcome}: {ruling.kind}", []).append(ruling)
    view = DeviationsView(
        deviations=lock.deviations, groups=list(groups.items()), folded=len(lock.deviations) > MANY
    )
    note = "None: nothing was replaced, and nothing is missing."
    return Section(id="deviations", title="Deviations", note=note, view=view)


class Omission(Struct, frozen=True, kw_only=True):
    """Omitted variables of one kind; `reason` is None if they have several."""

    kind: str
    reason: str | None
    rulings: Sequence[Resolution]


class EnvironmentView(Struct, frozen=True, kw_only=True):
    """The image's variables (name, value, reason), omitted variables, and decisions (name, value)."""

    variables: Sequence[tuple[str, str, str]]
    omissions: Sequence[Omission]
    decisions: Sequence[tuple[str, str]]


def view_environment(lock: Lock) -> Section:
    """Return the image's variables, omitted variables, and decisions."""
    about = [
        ruling
        for ruling in lock.rulings
        if field_of(ruling.file) == "variables" and ruling.kind not in OF_NO_LINE
    ]
    why = {ruling.subject: ruling.reason for ruling in about if ruling.outcome == "pinned"}
    groups: dict[str, list[Resolution]] = {}
    for ruling in about:
        if ruling.outcome != "pinned":
            groups.setdefault(ruling.kind or ruling.outcome, []).append(ruling)
    view = EnvironmentView(
        variables=[(setting.name, setting.value, why.get(setting.name, "")) for setting in lock.environment],
        omissions=[
            _make_omission(kind, rulings)
            for kind, rulings in sorted(groups.items(), key=lambda pair: -len(pair[1]))
        ],
        decisions=[(name, _format_value(value)) for name, value in sorted(lock.decisions.as_dict().items())],
    )
    lead = "Variables that change what is computed are in the image; those of a session, a site or a scheduler are not."
    note = "The image sets no variable of the captured environment."
    return Section(id="environment", title="Environment", lead=lead, note=note, view=view)


def _make_omission(kind: str, rulings: Sequence[Resolution]) -> Omission:
    reasons = {ruling.reason for ruling in rulings}
    return Omission(kind=kind, reason=reasons.pop() if len(reasons) == 1 else None, rulings=rulings)


def _format_value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class CapturedFile(Struct, frozen=True, kw_only=True):
    """A captured file, with the resolutions of its lines and a bar of their outcomes."""

    name: str
    bar: Bar
    rulings: Sequence[Resolution]


class CapturedLinesView(Struct, frozen=True, kw_only=True):
    """The captured files, and the outcomes in the order of the legend."""

    files: Sequence[CapturedFile]
    outcomes: Sequence[Outcome] = OUTCOMES


def view_captured_lines(lock: Lock) -> Section:
    """Return the resolution of each captured line, by file."""
    files: dict[str, list[Resolution]] = {}
    for ruling in lock.rulings:
        files.setdefault(ruling.file, []).append(ruling)
    view = CapturedLinesView(
        files=[
            CapturedFile(
                name=name, bar=plot_outcomes(Counter(ruling.outcome for ruling in rulings)), rulings=rulings
            )
            for name, rulings in files.items()
        ]
    )
    lead = (
        "Nothing is dropped silently: each line is pinned, in base, excluded with a reason, solved as of a date, "
        "replaced, or unresolved."
    )
    return Section(id="lines", title="Every captured line", lead=lead, view=view)


class ConflictsView(Struct, frozen=True, kw_only=True):
    """The unmet requirements, one a line."""

    lines: Sequence[str]


def view_conflicts(lock: Lock) -> Section:
    """Return the unmet requirements of the packages."""
    lines = find_conflicts(lock)
    lead = "What ran with a conflict runs with it again: a freeze is taken as it is."
    note = "None: every requirement of a package is met by another."
    return Section(
        id="conflicts",
        title="Requirements that are not met",
        lead=lead if lines else "",
        note=note,
        view=ConflictsView(lines=lines),
    )
