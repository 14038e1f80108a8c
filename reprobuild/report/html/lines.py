"""The section on the round trip: reasons, unexplained differences, and one table of every captured line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct

from reprobuild.lock.model import Lock, Outcome, Resolution
from reprobuild.report.html.components import Section
from reprobuild.report.html.plot import OUTCOMES, Bar, plot_outcomes
from reprobuild.verify.verdict import Code, RoundTripDifference, Verdict

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


# Lines that need a look come first.
_ORDER: tuple[Outcome, ...] = ("unresolved", "replaced", "solved", "excluded", "in base", "pinned")


class ReasonCount(Struct, frozen=True, kw_only=True):
    """The number of differences of one code, and its meaning."""

    code: Code
    meaning: str
    number: int


class CapturedFile(Struct, frozen=True, kw_only=True):
    """A captured file with a bar of the outcomes of its lines."""

    name: str
    bar: Bar


class LineRow(Struct, frozen=True, kw_only=True):
    """One row: a captured line or a further difference, its place, its outcome, and its code if the image differs."""

    subject: str
    image: str
    place: str
    outcome: str
    code: str
    reason: str


class RoundTripView(Struct, frozen=True, kw_only=True):
    """The answer of the round trip, its reasons, unexplained differences, files and lines."""

    answer: str
    reasons: Sequence[ReasonCount]
    unexplained: Sequence[RoundTripDifference]
    files: Sequence[CapturedFile]
    lines: Sequence[LineRow]
    outcomes: Sequence[Outcome] = OUTCOMES


def view_round_trip(lock: Lock, verdict: Verdict) -> Section:
    """Return the section on every captured line, and on the lines that the image does not repeat."""
    numbers = Counter(difference.code for difference in verdict.differences)
    view = RoundTripView(
        answer=verdict.round_trip,
        reasons=[
            ReasonCount(code=code, meaning=meaning, number=numbers[code])
            for code, meaning in CODES.items()
            if numbers[code]
        ],
        unexplained=[item for item in verdict.differences if item.code == "unexplained"],
        files=_list_files(lock),
        lines=sorted(_list_lines(lock, verdict), key=_urgency),
    )
    lead = (
        "Nothing is dropped silently: each line is pinned, in base, excluded with a reason, solved as of a date, "
        "replaced, or unresolved."
    )
    return Section(id="round-trip", title="Every captured line", lead=lead, view=view)


def _list_files(lock: Lock) -> list[CapturedFile]:
    files: dict[str, Counter[Outcome]] = {}
    for ruling in lock.rulings:
        files.setdefault(ruling.file, Counter())[ruling.outcome] += 1
    return [CapturedFile(name=name, bar=plot_outcomes(counts)) for name, counts in files.items()]


def _list_lines(lock: Lock, verdict: Verdict) -> Iterator[LineRow]:
    """Yield each captured line with its difference, then the differences of no captured line."""
    differences: dict[tuple[str, str], list[RoundTripDifference]] = {}
    for item in verdict.differences:
        differences.setdefault((item.list, item.captured), []).append(item)
    for ruling in lock.rulings:
        matches = differences.pop((ruling.file, ruling.captured or ruling.subject), ())
        yield _make_row(ruling, matches[0] if matches else None)
        yield from map(_make_further_row, matches[1:])
    for items in differences.values():
        yield from map(_make_further_row, items)


def _make_further_row(item: RoundTripDifference) -> LineRow:
    return LineRow(
        subject=item.captured or "(not captured)", image=item.image, place=item.list, outcome="",
        code=item.code, reason=item.reason,
    )  # fmt: skip


def _make_row(ruling: Resolution, difference: RoundTripDifference | None) -> LineRow:
    return LineRow(
        subject=ruling.subject, image=difference.image if difference else "", place=ruling.place,
        outcome=ruling.outcome, code=difference.code if difference else "", reason=ruling.reason,
    )  # fmt: skip


def _urgency(row: LineRow) -> int:
    """Return the rank of a row: unexplained differences first, pinned lines last."""
    if row.code == "unexplained":
        return 0
    ranks: dict[str, int] = {outcome: rank for rank, outcome in enumerate(_ORDER, 1)}
    return ranks.get(row.outcome, 1)
