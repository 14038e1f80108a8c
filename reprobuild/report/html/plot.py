"""Pictures in SVG: results of probes, and outcomes of lines.

Colour alone never carries information: each answer has a shape of its own, each picture a title, a description, and a
table beside it. Attributes set positions and classes set colours, so that no style needs to be allowed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from reprobuild.lock.model import Outcome
from reprobuild.report.html.components import format_count
from reprobuild.report.html.markup import Html, tag
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
OUTCOMES: tuple[Outcome, ...] = ("pinned", "in base", "excluded", "replaced", "unresolved")


def plot_probes(probes: Sequence[ProbeVerdict], id_: str) -> Html:
    """Return a picture for each kind of probes.

    It has a column for each probe, and a mark for each mode; `id_` is unique.
    """
    kinds: dict[str, list[ProbeVerdict]] = {}
    for probe in probes:
        kinds.setdefault(probe.kind or "other", []).append(probe)
    pictures = [_plot_kind(kind, group, f"{id_}-{n}") for n, (kind, group) in enumerate(kinds.items())]
    return tag("div", _render_legend(), tag("div", *pictures, class_="plots"))


def _render_legend() -> Html:
    items = [
        tag(
            "li",
            tag(
                "svg",
                _render_mark(verdict, 7, 7),
                viewBox="0 0 14 14",
                width="14",
                height="14",
                aria_hidden="true",
            ),
            name,
        )
        for verdict, name in SEEN.items()
    ]
    return tag("ul", *items, class_="legend")


def _plot_kind(kind: str, probes: Sequence[ProbeVerdict], id_: str) -> Html:
    shown = probes[:LARGEST_PICTURE]
    bands = -(-len(shown) // ACROSS)
    high = len(MODES) * STEP + 10
    width, height = LEFT + min(len(shown), ACROSS) * STEP, TOP + bands * high
    marks = [part for band in range(bands) for part in _render_labels(TOP + band * high)]
    marks += [_plot_probe(p, LEFT + n % ACROSS * STEP, TOP + n // ACROSS * high) for n, p in enumerate(shown)]
    description = _describe_probes(probes)
    title = tag(
        "title", f"{kind}: {format_count(len(probes), 'probe')} in {len(MODES)} modes", id=f"{id_}-title"
    )
    picture = tag(
        "svg", title, tag("desc", description, id=f"{id_}-desc"), *marks, role="img", viewBox=f"0 0 {width} {height}",
        width=str(width), height=str(height), aria_labelledby=f"{id_}-title {id_}-desc",
    )  # fmt: skip
    caption = tag("figcaption", tag("b", kind), " ", tag("span", description, class_="muted"))
    return tag("figure", caption, picture)


def _render_labels(top: int) -> Iterator[Html]:
    for row, mode in enumerate(MODES):
        yield tag("text", mode, x=str(LEFT - 6), y=str(top + row * STEP + 10))


def _plot_probe(probe: ProbeVerdict, left: int, top: int) -> Html:
    words = {name: SEEN[mode.verdict] for name, mode in probe.modes.items()}
    alike = set(words.values())
    description = (
        alike.pop() if len(alike) == 1 else ", ".join(f"{name} {word}" for name, word in words.items())
    )
    marks = [
        _render_mark(probe.modes[name].verdict, left + STEP // 2, top + row * STEP + STEP // 2)
        for row, name in enumerate(MODES)
        if name in probe.modes
    ]
    return tag("g", tag("title", f"{probe.name}: {description}"), *marks)


def _render_mark(verdict: Seen, x: int, y: int) -> Html:
    """Return the mark of a result, around a point."""
    if verdict == "IDENTICAL":
        return tag("circle", cx=str(x), cy=str(y), r="3", class_="m-same")
    if verdict == "DRIFT":
        return tag("path", d=f"M{x} {y - 6}l6 6l-6 6l-6 -6z", class_="m-drift")
    if verdict == "REFUSED":
        return tag("rect", x=str(x - 4), y=str(y - 4), width="8", height="8", class_="m-refused")
    if verdict == "ERROR":
        return tag("path", d=f"M{x - 4} {y - 4}l8 8m0 -8l-8 8", class_="m-error")
    return tag("path", d=f"M{x - 3} {y}h6", class_="m-skipped")


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


def plot_outcomes(counts: Counter[Outcome], id_: str) -> Html:
    """Return a bar of the outcomes of a captured file's lines."""
    total, begun = sum(counts.values()), 0
    bars = []
    for number, outcome in enumerate(OUTCOMES):
        if counts[outcome]:
            ended = begun + counts[outcome]
            left = begun * BAR // total
            size = {"x": str(left), "y": "0", "width": str(ended * BAR // total - left), "height": "10"}
            bars.append(tag("rect", **size, class_=f"o-{number}"))
            begun = ended
    description = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if counts[outcome])
    return tag(
        "svg", tag("title", description, id=id_), *bars, role="img", class_="bar", viewBox=f"0 0 {BAR} 10",
        preserveAspectRatio="none", aria_labelledby=id_,
    )  # fmt: skip
