"""Sections on the round trip.

They are deviations, variables, every captured line, and unmet requirements.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from reprobuild.lock.model import OF_NO_LINE, Lock, Resolution
from reprobuild.lock.requirements import find_conflicts
from reprobuild.report.html.components import Section, bullet_list, chip, code_element, fold, table
from reprobuild.report.html.markup import Html, join, tag
from reprobuild.report.html.plot import OUTCOMES, plot_outcomes
from reprobuild.snapshot.file_kinds import field_of
from reprobuild.verify.verdict import Code, RoundTripDifference, Verdict

MANY = 12  # deviations in one table
# docs/round-trip.md has them at length.
CODES: dict[Code, str] = {
    "unexplained": "nothing explains it", "replaced-version": "another version stands in, and was accepted",
    "unrecoverable": "nothing stands in for it, and that was accepted", "decision": "you dropped or set it",
    "base-provided": "the base or the environment brings it", "host-only": "it belongs to the host",
    "secret-withheld": "a secret; its value was never kept", "not-needed": "nothing that was asked for needs it",
    "site-variable": "a variable of the session, the scheduler, the modules or the fabric",
    "not-baked": "a variable that is not known to change the computation",
    "path-rewritten": "a directory of the captured machine, which has another place in the image, or none",
    "other-spelling": "the same, written differently",
}  # fmt: skip


def render_round_trip(verdict: Verdict) -> Section:
    """Return the captured lines that the image does not repeat.

    They are grouped by reason.
    """
    by_code: dict[Code, list[RoundTripDifference]] = {}
    for difference in verdict.differences:
        by_code.setdefault(difference.code, []).append(difference)
    head = ("list", "captured", "image", "reason")
    parts = [
        fold(
            f"{name}: {meaning}",
            table(
                f"Differences: {name}", head,
                ((d.list, code_element(d.captured), code_element(d.image), d.reason) for d in by_code[name]),
            ),
            count=len(by_code[name]), open_=name == "unexplained",
        )
        for name, meaning in CODES.items()
        if name in by_code
    ]  # fmt: skip
    lead = "The environment was captured again inside the image, and compared line by line with what was captured: "
    parts.insert(0, tag("p", lead, chip(verdict.round_trip), "."))
    if not verdict.differences and verdict.round_trip == "exact":
        parts.append(tag("p", "No line differs.", class_="muted"))
    return Section(id="round-trip", title="Round trip", parts=tuple(parts))


def render_deviations(lock: Lock) -> Section:
    """Return the accepted deviations; many of them by kind."""
    groups: dict[str, list[Resolution]] = {}
    for ruling in lock.deviations:
        groups.setdefault(f"{ruling.outcome}: {ruling.kind}", []).append(ruling)
    parts: tuple[Html, ...] = ()
    if len(lock.deviations) > MANY:
        parts = tuple(
            fold(
                name,
                _render_resolutions(f"Deviations: {name}", resolutions),
                count=len(resolutions),
                open_=len(resolutions) <= MANY,
            )
            for name, resolutions in groups.items()
        )
    elif groups:
        parts = (_render_resolutions("What is not as it was captured", lock.deviations),)
    note = "None: nothing was replaced, and nothing is missing."
    return Section(id="deviations", title="Deviations", parts=parts, note=note)


def render_environment(lock: Lock) -> Section:
    """Return the image's variables, omitted variables, and overrides."""
    about = [
        ruling
        for ruling in lock.rulings
        if field_of(ruling.file) == "variables" and ruling.kind not in OF_NO_LINE
    ]
    why = {ruling.subject: ruling.reason for ruling in about if ruling.outcome == "pinned"}
    rows = [
        (code_element(setting.name), code_element(setting.value), why.get(setting.name, ""))
        for setting in lock.environment
    ]
    parts = (
        [table("Variables that the image sets", ("name", "value", "why"), rows, shown=True)] if rows else []
    )
    groups: dict[str, list[Resolution]] = {}
    for ruling in about:
        if ruling.outcome != "pinned":
            groups.setdefault(ruling.kind or ruling.outcome, []).append(ruling)
    if groups:
        parts.append(tag("h3", "Not in the image"))
    parts += [
        _render_omissions(kind, resolutions)
        for kind, resolutions in sorted(groups.items(), key=lambda pair: -len(pair[1]))
    ]
    if decisions := lock.decisions.as_dict():
        decided = [
            (code_element(key), code_element(_format_value(value)))
            for key, value in sorted(decisions.items())
        ]
        parts.append(table("What you decided", ("decision", "value"), decided, shown=True))
    lead = "Variables that change what is computed are in the image; those of a session, a site or a scheduler are not."
    note = "The image sets no variable of the captured environment."
    return Section(id="environment", title="Environment", lead=lead, parts=tuple(parts), note=note)


def _render_omissions(kind: str, resolutions: Sequence[Resolution]) -> Html:
    reasons = {ruling.reason for ruling in resolutions}
    if len(reasons) == 1:
        return fold(
            f"{kind}: {reasons.pop()}",
            tag("p", join((code_element(ruling.subject) for ruling in resolutions), ", ")), count=len(resolutions),
        )  # fmt: skip
    return fold(kind, _render_resolutions(f"Left out: {kind}", resolutions), count=len(resolutions))


def _format_value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def render_captured_lines(lock: Lock) -> Section:
    """Return the resolution of each captured line, by file.

    Each file has a bar.
    """
    files: dict[str, list[Resolution]] = {}
    for ruling in lock.rulings:
        files.setdefault(ruling.file, []).append(ruling)
    parts = [part for number, pair in enumerate(files.items()) for part in _render_file(number, *pair)]
    lead = "Nothing is dropped silently: each line is pinned, in base, excluded with a reason, replaced, or unresolved."
    if parts:
        names = [tag("li", tag("span", class_=f"key o-{n}"), name) for n, name in enumerate(OUTCOMES)]
        parts.insert(0, tag("ul", *names, class_="legend"))
    return Section(id="lines", title="Every captured line", lead=lead, parts=tuple(parts))


def _render_file(number: int, name: str, resolutions: Sequence[Resolution]) -> Iterator[Html]:
    counts = Counter(ruling.outcome for ruling in resolutions)
    summary = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if counts[outcome])
    yield plot_outcomes(counts, f"bar-{number}")
    yield fold(
        f"{name}: {summary}", _render_resolutions(f"Lines of {name}", resolutions), count=len(resolutions)
    )


def render_conflicts(lock: Lock) -> Section:
    """Return the unmet requirements of the packages."""
    conflict_lines = find_conflicts(lock)
    lead = "What ran with a conflict runs with it again: a freeze is taken as it is."
    parts = (bullet_list(conflict_lines),) if conflict_lines else ()
    note = "None: every requirement of a package is met by another."
    return Section(
        id="conflicts",
        title="Requirements that are not met",
        lead=lead if conflict_lines else "",
        parts=parts,
        note=note,
    )


def _render_resolutions(caption: str, rulings: Iterable[Resolution]) -> Html:
    rows = (
        (
            join(
                (code_element(r.subject), chip(r.outcome), tag("span", f"{r.file}:{r.line}", class_="place")),
                " ",
            ),
            r.reason,
        )
        for r in rulings
    )
    return table(caption, ("what", "reason"), rows, kind="rulings")
