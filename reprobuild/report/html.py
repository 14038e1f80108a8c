"""The page that people read: one file, no script, no address outside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import get_args

from reprobuild.halflife import Forecast
from reprobuild.image.build import Image
from reprobuild.lock import Lock, Ruling, conflicts
from reprobuild.verify.document import ModeName, flat
from reprobuild.verify.verdict import Against, Control, Mode, Probe, ProbeV, RoundTrip, Smoke, V, Verdict

# No check on one machine covers these.
NEVER = (
    (
        "never covered",
        "several machines; models of GPU and processor, drivers and thread counts other than those below",
    ),
    (
        "never covered",
        "what no probe computes: your own work is compared only where a workload or --command names it",
    ),
)
LEGEND = (
    "Each mode: what was seen, N runs in how many processes, the share of drifting runs that N excludes at 95 %, and "
    "the start of the digest. The answer is that of strict mode; refused is what torch's own text says it refuses."
)
MODES: tuple[ModeName, ...] = ("default", "profile", "strict", "warn")

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; padding: .2em .8em .2em 0;
border-bottom: 1px solid #ddd; vertical-align: top; overflow-wrap: anywhere } code { font-size: 90% }
.identical, .exact, .refused, .effective { color: #0a6b2d } .drift, .residue { color: #b00020; font-weight: bold }
.inconclusive, .not-covered, .not-run, .explained, .ineffective { color: #8a5a00 }
"""


def render_html(lock: Lock, image: Image, verdict: Verdict, half_life: Sequence[Forecast] = ()) -> str:
    """Return the report as one HTML page; every value is escaped."""
    parts = [
        *_answers(verdict),
        _image(lock, image),
        *(part for smoke in verdict.smoke for part in _smoke(smoke)),
        _work(verdict),
        *_against(verdict.against),
        *_round_trip(lock, verdict),
        _half_life(half_life),
        _rulings("Every captured line", lock.rulings),
    ]  # fmt: skip
    title = f"reprobuild: {_escaped(image.reference)}"
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f"<h1>{title}</h1>\n" + "\n".join(parts) + "</html>\n"
    )


def _answers(verdict: Verdict) -> Iterator[str]:
    answers = verdict.determinism
    yield _table(
        "Verdict",
        ("", ""),
        [
            ("determinism, CPU", answers.cpu),
            ("determinism, GPU", answers.gpu),
            ("determinism, collectives", answers.collectives),
            ("round trip", verdict.round_trip),
            ("seed", str(verdict.seed)),
            ("profile", verdict.profile),
            ("made", f"{verdict.made}, by reprobuild {verdict.program}"),
            ("engine", verdict.engine or "not told"),
            ("GPUs asked for", verdict.gpus or "none"),
        ],
    )
    reasons = [(smoke.device, reason) for smoke in verdict.smoke for reason in smoke.open]
    left_out = [
        (smoke.device, f"not run without --thorough: {', '.join(smoke.left_out)}")
        for smoke in verdict.smoke
        if smoke.left_out
    ]
    rows = [("", note) for note in verdict.notes] + reasons + left_out
    yield _table("What was not covered, and what else there is to say", ("", ""), [*rows, *NEVER])


def _image(lock: Lock, image: Image) -> str:
    return _table(
        "Image",
        ("", ""),
        [
            ("reference", image.reference),
            ("builder", image.builder),
            ("tree", image.tree),
            ("config", image.config),
            ("manifest", image.manifest),
            ("lock", f"sha256:{lock.digest}"),
            ("snapshot", f"sha256:{lock.snapshot}"),
        ],
    )


def _smoke(smoke: Smoke) -> Iterator[str]:
    """Yield the tables of one device: probes, controls, the comparison's own control, collectives, platform."""
    yield _probes(f"Smoke test, {smoke.device}: {smoke.verdict}", smoke.probes)
    yield f"<p>{escape(LEGEND)}</p>"
    yield _controls(f"Controls, {smoke.device}", smoke.controls)
    told = {True: "told apart", False: "NOT told apart"}
    yield _table(
        f"Changes that the comparison must tell apart, {smoke.device}",
        ("change", ""),
        [(name, told[seen]) for name, seen in sorted(smoke.comparator.items())],
    )
    several = smoke.collectives
    if several:
        title = f"Collectives, {smoke.device}: {several.verdict}: {several.backend}, {several.world} ranks"
        yield _probes(title, several.probes)
        yield _controls(f"Controls of collectives, {smoke.device}", several.controls)
    facts = [
        ("seeding before the first program", smoke.hook),
        ("documented by", smoke.expectations),
        ("hundreds of repeats", "yes" if smoke.thorough else "no"),
        ("threads in each mode", ", ".join(f"{name} {n}" for name, n in smoke.threads.items()) or "not told"),
        *([("collectives by", ", ".join(several.algorithms))] if several and several.algorithms else []),
    ]
    yield _table(f"Platform and settings, {smoke.device}", ("", ""), [*facts, *flat(smoke.fingerprint)])


def _controls(title: str, controls: Sequence[Control]) -> str:
    rows = [
        (c.name, c.device, c.verdict, c.why, "; ".join(f"{name}: {_mode(m)}" for name, m in c.modes.items()))
        for c in controls
    ]
    return _table(title, ("control", "device", "answer", "why", "seen"), rows)


def _work(verdict: Verdict) -> str:
    rows = [
        row
        for c in verdict.comparisons
        for row in ((c.name, c.verdict, c.detail), *(("", "", line) for line in c.details))
    ]
    return _table("Your work", ("work", "verdict", "detail"), rows)


def _probes(title: str, probes: Sequence[Probe]) -> str:
    head = ("probe", "kind", "type and shape", "documented", "answer", *MODES, "why")
    rows = [
        (p.name, p.kind, f"{p.dtype} {p.shape}".strip(), p.documented, p.verdict,
         *(_mode(p.modes.get(name)) for name in MODES), p.why)
        for p in probes
    ]  # fmt: skip
    return _table(title, head, rows)


def _mode(mode: Mode | None) -> str:
    """Return one cell: the answer, the number of runs in how many processes, their bound, and the digest's start."""
    if mode is None:
        return ""
    said = f"{mode.verdict}, N = {mode.runs} in {mode.processes}"
    if mode.verdict == "IDENTICAL" and mode.digest:
        return f"{said}, < {mode.upper:.1%}, {mode.digest[:12]}"
    if mode.verdict == "DRIFT":
        return f"{said}: {mode.distinct} different results"
    return mode.verdict if mode.verdict == "REFUSED" else f"{mode.verdict}: {mode.why}"


def _against(found: Against | None) -> Iterator[str]:
    if found is None:
        return
    lists = (
        ("failed", found.failed), ("platform", found.platform), ("expected there", found.other),
        ("not comparable", found.unmatched), ("changes no result", found.beside),
    )  # fmt: skip
    rows = [
        (what, d.scope, d.name, *("nothing" if value is None else value for value in (d.then, d.now)))
        for what, items in lists
        for d in items
    ]
    title = f"Against the certificate of {found.made}: {found.verdict}, {found.compared} digests compared"
    yield _table(title, ("", "scope", "what", "then", "now"), rows)


def _round_trip(lock: Lock, verdict: Verdict) -> Iterator[str]:
    yield _rulings("Deviations", lock.deviations)
    if found := conflicts(lock):
        yield _table("Requirements that are not met", ("",), [(said,) for said in found])
    yield _table(
        "Round trip: differences",
        ("list", "captured", "image", "code", "reason"),
        [(d.list, d.captured, d.image, d.code, d.reason) for d in verdict.differences],
    )


def _half_life(half_life: Sequence[Forecast]) -> str:
    return _table(
        "How long the inputs can be fetched",
        ("class", "files", "bytes", "not in the store", "earliest loss", "why", "source"),
        [
            (f.name, str(f.files), str(f.bytes), str(f.missing), f.lost or "kept", f.why, f.source)
            for f in half_life
        ],
    )


def _rulings(title: str, rulings: Iterable[Ruling]) -> str:
    rows = [(f"{r.file}:{r.line}", r.subject, r.outcome, r.reason) for r in rulings]
    return _table(title, ("line", "what", "outcome", "reason"), rows)


def _escaped(text: str) -> str:
    """Return text for a page: nothing in it is markup, and what does not print is written out."""
    plain = "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)
    return escape(plain)


def _table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    body = [_row(row) for row in rows]
    if not body:
        return f"<h2>{_escaped(title)}</h2><p>none</p>"
    headings = "".join(f"<th>{_escaped(cell)}</th>" for cell in head) if any(head) else ""
    return f"<h2>{_escaped(title)}</h2><table><tr>{headings}</tr>{''.join(body)}</table>"


def _row(row: Sequence[str]) -> str:
    cells = "".join(
        f'<td class="{_escaped(cell)}">{_escaped(cell)}</td>'
        if _short(cell)
        else f"<td>{_escaped(cell)}</td>"
        for cell in row
    )
    return f"<tr>{cells}</tr>"


def _short(cell: str) -> bool:
    """Tell whether a cell is one of the verdicts, which the style colours."""
    return cell in {*get_args(V), *get_args(RoundTrip), *get_args(ProbeV), "effective", "ineffective"}
