"""Components of the page's sections.

They are headings, tables, facts, folds, and words for answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from reprobuild.report.html.markup import Html, join, tag

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
    "not-run": "open", "other-platform": "open", "did not finish": "open",
}  # fmt: skip


class Section(Struct, frozen=True, kw_only=True):
    """One section: its id, heading, lead of one sentence, and parts."""

    id: str
    title: str
    lead: str = ""
    parts: tuple[Html, ...] = ()
    note: str = ""

    def render(self) -> Html:
        """Return the section; one without parts shows its note."""
        body = self.parts or (tag("p", self.note or "Nothing.", class_="muted"),)
        lead = (tag("p", self.lead, class_="lead"),) if self.lead else ()
        return tag(
            "section", tag("h2", self.title, id=f"{self.id}-title"), *lead, *body, id=self.id,
            aria_labelledby=f"{self.id}-title",
        )  # fmt: skip


def chip(word: str) -> Html:
    """Return an answer as a word with a tone for its meaning."""
    tone = TONES.get(word)
    return tag("span", word, class_=f"chip {tone}") if tone else tag("span", word)


def code_element(value: str) -> Html:
    """Return a value in the form of a file or a command."""
    return tag("code", value)


def short_digest(value: str) -> Html:
    """Return the beginning of a digest, which identifies it."""
    kind, _, number = value.rpartition(":")
    return (
        tag("code", number[:BRIEF], title=value)
        if len(number) == 64 and kind in ("", "sha256")
        else code_element(value)
    )


def fact_list(pairs: Iterable[tuple[str, str]]) -> Html:
    """Return a list of names with their values."""
    rows = [tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs]
    return tag("dl", *rows, class_="facts")


def fold(summary: str, *parts: Html, count: int | None = None, open_: bool = False, id_: str = "") -> Html:
    """Return parts that a reader unfolds by their summary.

    `count` is the number of their items.
    """
    number = (tag("span", f"{count:,}", class_="count"),) if count is not None else ()
    more = ({"open": ""} if open_ else {}) | ({"id": id_} if id_ else {})
    return tag("details", tag("summary", summary, *number), tag("div", *parts, class_="fold"), **more)


def table(
    caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], *, shown: bool = False, kind: str = ""
) -> Html:
    """Return a table that a keyboard can scroll.

    The first cell of each row is its heading.

    Args:
        caption: the content of the table, for readers who do not see it.
        head: headings of columns.
        rows: cells, text or `Html`; those beyond `MOST_ROWS` are counted.
        shown: show the caption to all.
        kind: a class that sets the columns' widths.
    """
    every = list(rows)
    headings = tag("tr", *(tag("th", name, scope="col") for name in head))
    body = [
        tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:]))
        for row in every[:MOST_ROWS]
    ]
    rest = len(every) - MOST_ROWS
    more = (
        (tag("p", f"And {rest:,} more, in the files beside this page.", class_="muted"),) if rest > 0 else ()
    )
    inner = tag(
        "table", tag("caption", caption, **({} if shown else {"class_": "hidden"})), tag("thead", headings),
        tag("tbody", join(body, "\n")), **({"class_": kind} if kind else {}),
    )  # fmt: skip
    # Columns of packages always fit; a keyboard stop at each letter would only be in the way.
    reach = {} if kind == "packages" else {"tabindex": "0", "role": "group", "aria_label": caption}
    return join((tag("div", inner, class_="scroll", **reach), *more))


def bullet_list(items: Iterable[str]) -> Html:
    """Return a list."""
    return tag("ul", *(tag("li", item) for item in items))


def format_count(number: int, noun: str, many: str = "") -> str:
    """Return a number with its noun."""
    return f"{number:,} {noun if number == 1 else many or noun + 's'}"
