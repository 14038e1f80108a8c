"""What the sections of the page share: their form, and words for answers."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

# Most rows of one table; the files beside the page have all.
MOST_ROWS = 2000
BRIEF = 12  # characters of a digest, which identify it
Tone = Literal["good", "note", "bad", "open", "none"]
# The meaning of an answer for the reader; the page never shows it by colour alone.
TONES: dict[str, Tone] = {
    "identical": "good", "exact": "good", "explained": "good", "effective": "good", "same": "good", "pinned": "good",
    "in base": "good", "told apart": "good", "refused": "note", "informational": "none", "not-applicable": "none",
    "excluded": "none", "replaced": "note", "unresolved": "bad", "drift": "bad", "residue": "bad", "differ": "bad",
    "ineffective": "bad", "NOT told apart": "bad", "unexplained": "bad", "inconclusive": "open", "not-covered": "open",
    "solved": "note", "not-run": "open", "other-platform": "open", "did not finish": "open",
}  # fmt: skip


class Section(Struct, frozen=True, kw_only=True):
    """One section: its id, heading, lead of one sentence, and the facts of its template.

    The template is `templates/ID.html.j2`. `note` stands in a section whose template gives nothing.
    """

    id: str
    title: str
    lead: str = ""
    note: str = ""
    view: Struct


def brief_digest(value: str) -> str:
    """Return the beginning of a sha256, which identifies it; empty for another value."""
    kind, _, number = value.rpartition(":")
    return number[:BRIEF] if len(number) == 64 and kind in ("", "sha256") else ""


def format_count(number: int, noun: str, many: str = "") -> str:
    """Return a number with its noun."""
    return f"{number:,} {noun if number == 1 else many or noun + 's'}"
