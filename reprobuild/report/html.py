"""The page that people read: one file, no script, no address outside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import get_args

from reprobuild.halflife import Forecast
from reprobuild.image.build import Image
from reprobuild.lock import Lock
from reprobuild.verify.verdict import RoundTrip, V, Verdict

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; padding: .2em .8em .2em 0;
border-bottom: 1px solid #ddd; vertical-align: top; overflow-wrap: anywhere } code { font-size: 90% }
.identical, .exact { color: #0a6b2d } .drift, .residue { color: #b00020; font-weight: bold }
.inconclusive, .not-covered, .not-run, .explained { color: #8a5a00 }
"""


def render_html(lock: Lock, image: Image, verdict: Verdict, half_life: Sequence[Forecast] = ()) -> str:
    """Return the report as one HTML page; every value is escaped."""
    answers = verdict.determinism
    parts = [
        _table(
            "Verdict",
            ("", ""),
            [
                ("determinism, CPU", answers.cpu),
                ("determinism, GPU", answers.gpu),
                ("determinism, collectives", answers.collectives),
                ("round trip", verdict.round_trip),
                ("seed", str(verdict.seed)),
                *(("note", note) for note in verdict.notes),
            ],
        ),
        _table(
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
        ),
        _table(
            "Deviations",
            ("line", "what", "outcome", "reason"),
            [(f"{r.file}:{r.line}", r.subject, r.outcome, r.reason) for r in lock.deviations],
        ),
        _table(
            "Round trip: differences",
            ("list", "captured", "image", "code", "reason"),
            [(d.list, d.captured, d.image, d.code, d.reason) for d in verdict.differences],
        ),
        _table(
            "Comparisons",
            ("work", "verdict", "detail"),
            [(c.name, c.verdict, c.detail) for c in (*verdict.comparisons, verdict.control)],
        ),
        _table(
            "How long the inputs can be fetched",
            ("class", "files", "bytes", "not in the store", "earliest loss", "why", "source"),
            [
                (f.name, str(f.files), str(f.bytes), str(f.missing), f.lost or "kept", f.why, f.source)
                for f in half_life
            ],
        ),
        _table(
            "Machine", ("", ""), [(key, str(value)) for key, value in sorted(verdict.fingerprint.items())]
        ),
        _table(
            "Every captured line",
            ("line", "what", "outcome", "reason"),
            [(f"{r.file}:{r.line}", r.subject, r.outcome, r.reason) for r in lock.rulings],
        ),
    ]
    title = f"reprobuild: {escape(image.reference)}"
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f"<h1>{title}</h1>\n" + "\n".join(parts) + "</html>\n"
    )


def _table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    body = [_row(row) for row in rows]
    if not body:
        return f"<h2>{escape(title)}</h2><p>none</p>"
    headings = "".join(f"<th>{escape(cell)}</th>" for cell in head) if any(head) else ""
    return f"<h2>{escape(title)}</h2><table><tr>{headings}</tr>{''.join(body)}</table>"


def _row(row: Sequence[str]) -> str:
    cells = "".join(
        f'<td class="{escape(cell)}">{escape(cell)}</td>' if _short(cell) else f"<td>{escape(cell)}</td>"
        for cell in row
    )
    return f"<tr>{cells}</tr>"


def _short(cell: str) -> bool:
    """Tell whether a cell is one of the verdicts, which the style colours."""
    return cell in {*get_args(V), *get_args(RoundTrip)}
