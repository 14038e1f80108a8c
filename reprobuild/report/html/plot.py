"""Pictures in SVG: results of probes, and outcomes of lines.

Colour alone never carries information: each answer has a shape of its own, each picture a title, a description, and a
table beside it. Attributes set positions and classes set colours, so that no style needs to be allowed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from reprobuild.lock.model import Outcome
from reprobuild.report.html.components import format_count
from reprobuild.verify.determinism.document import ModeName, Seen
from reprobuild.verify.verdict import ProbeVerdict

MODES: tuple[ModeName, ...] = ("default", "profile", "strict", "warn")
# Results of a mode in words, in the order of the legend.
SEEN: dict[Seen, str] = {
    "IDENTICAL": "identical", "DRIFT": "drift", "REFUSED": "refused", "ERROR": "error", "SKIPPED": "not run",
}  # fmt: skip
STEP, LEFT, TOP, ACROSS = 14, 52, 4, 20
LARGEST_PICTURE = 200  # probes of one kind
BAR = 1000
OUTCOMES: tuple[Outcome, ...] = ("pinned", "solved", "in base", "excluded", "replaced", "unresolved")


class Label(Struct, frozen=True):
    """A word at a place in pixels."""

    text: str
    x: int
    y: int


class Mark(Struct, frozen=True):
    """The mark of a result, around a place in pixels."""

    seen: Seen
    x: int
    y: int


class Column(Struct, frozen=True, kw_only=True):
    """The marks of one probe at its place, its results in words, and the id of its row; empty if it was identical."""

    title: str
    x: int
    y: int
    marks: Sequence[Mark]
    row: str


class Picture(Struct, frozen=True, kw_only=True):
    """A picture of the probes of one kind: a column for each probe, and a mark for each mode."""

    kind: str
    title: str
    description: str
    width: int
    height: int
    labels: Sequence[Label]
    columns: Sequence[Column]
    step: int = STEP

    @property
    def linked(self) -> bool:
        """Whether a column leads to a row: a picture with links is a group."""
        return any(column.row for column in self.columns)


class BarPart(Struct, frozen=True):
    """A part of a bar: the number of its outcome, its place and width."""

    number: int
    x: int
    width: int


class Bar(Struct, frozen=True, kw_only=True):
    """A bar of the outcomes of a captured file's lines."""

    description: str
    parts: Sequence[BarPart]
    width: int = BAR


def plot_probes(probes: Sequence[ProbeVerdict], rows: Mapping[str, str]) -> list[Picture]:
    """Return a picture for each kind of probes.

    Args:
        probes: of one device.
        rows: the ids of the rows of probes that were not identical in every mode, by name.
    """
    kinds: dict[str, list[ProbeVerdict]] = {}
    for probe in probes:
        kinds.setdefault(probe.kind or "other", []).append(probe)
    return [_plot_kind(kind, group, rows) for kind, group in kinds.items()]


def _plot_kind(kind: str, probes: Sequence[ProbeVerdict], rows: Mapping[str, str]) -> Picture:
    shown = probes[:LARGEST_PICTURE]
    bands = -(-len(shown) // ACROSS)
    high = len(MODES) * STEP + 10
    return Picture(
        kind=kind,
        title=f"{kind}: {format_count(len(probes), 'probe')} in {len(MODES)} modes",
        description=_describe_probes(probes),
        width=LEFT + min(len(shown), ACROSS) * STEP,
        height=TOP + bands * high,
        labels=[
            Label(mode, LEFT - 6, TOP + band * high + row * STEP + 10)
            for band in range(bands)
            for row, mode in enumerate(MODES)
        ],
        columns=[
            _plot_probe(probe, LEFT + n % ACROSS * STEP, TOP + n // ACROSS * high, rows.get(probe.name, ""))
            for n, probe in enumerate(shown)
        ],
    )


def _plot_probe(probe: ProbeVerdict, left: int, top: int, row: str) -> Column:
    words = {name: SEEN[mode.verdict] for name, mode in probe.modes.items()}
    alike = set(words.values())
    description = (
        alike.pop() if len(alike) == 1 else ", ".join(f"{name} {word}" for name, word in words.items())
    )
    marks = [
        Mark(probe.modes[name].verdict, left + STEP // 2, top + line * STEP + STEP // 2)
        for line, name in enumerate(MODES)
        if name in probe.modes
    ]
    return Column(title=f"{probe.name}: {description}", x=left, y=top, marks=marks, row=row)


def _describe_probes(probes: Sequence[ProbeVerdict]) -> str:
    """Describe the picture of one kind in words."""
    odd: dict[str, Counter[Seen]] = {}
    for probe in probes:
        for name, mode in probe.modes.items():
            if mode.verdict != "IDENTICAL":
                odd.setdefault(name, Counter())[mode.verdict] += 1
    if not odd:
        return f"{format_count(len(probes), 'probe')}, identical in every mode"
    same = [name for name in MODES if odd.get(name) == next(iter(odd.values()))]
    if len(same) == len(MODES):
        return f"{format_count(len(probes), 'probe')}; {_describe_counts(odd['strict'])} in every mode"
    description = "; ".join(f"{name}: {_describe_counts(odd[name])}" for name in MODES if name in odd)
    return f"{format_count(len(probes), 'probe')}; {description}"


def _describe_counts(counts: Counter[Seen]) -> str:
    return ", ".join(f"{counts[verdict]} {word}" for verdict, word in SEEN.items() if counts[verdict])


def plot_outcomes(counts: Counter[Outcome]) -> Bar:
    """Return a bar of the outcomes of a captured file's lines."""
    total, begun = sum(counts.values()), 0
    parts = []
    for number, outcome in enumerate(OUTCOMES):
        if counts[outcome]:
            ended = begun + counts[outcome]
            left = begun * BAR // total
            parts.append(BarPart(number, left, ended * BAR // total - left))
            begun = ended
    description = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if counts[outcome])
    return Bar(description=description, parts=parts)
