"""Text on a terminal: colours, and rows that go on below their last column.

A report is plain text, and a pipe gets it as it is. On a terminal, rich colours the words at the places where a report
has its verdicts. Names and values of others are text to rich, and their markup has no effect.

`NO_COLOR`, `FORCE_COLOR`, `TERM` and `COLUMNS` mean what they mean to rich
(https://rich.readthedocs.io/en/stable/console.html#environment-variables).
"""

from __future__ import annotations

import os
import re
import shutil
from typing import TYPE_CHECKING, Literal, TextIO

import click

from reprobuild.infra.display import escape_text

if TYPE_CHECKING:  # small commands must start quickly, in a pipe most of all
    from rich.console import Console
    from rich.text import Text

STYLES = {
    "good": "green", "warning": "yellow", "bad": "bold red", "label": "bold", "faint": "dim", "hint": "cyan",
}  # fmt: skip
MUTE_TERMINALS = ("", "dumb", "unknown")  # values of TERM for a terminal that only prints

_WORDS = (
    "(?:(?P<good>pinned|in base|identical|exact|explained|same|not-applicable)"
    "|(?P<warning>excluded|replaced|solved|inconclusive|not-run|not-covered)"
    "|(?P<bad>unresolved|drift|residue|differ))"
)
# The places of a report at which its own words stand.
_PLACES = tuple(
    map(
        re.compile,
        (
            rf"^(?P<label>round trip|cluster): {_WORDS}\b",
            rf"(?:^(?P<label>determinism): |, )(?:cpu|gpu|collectives) {_WORDS}\b",
            rf"(?:^\S+ {{2,}}|, )\d+ {_WORDS}(?=,|$)",
            rf"^ +\S+:\d+: .*?: {_WORDS} \(",
            rf"^ +[\w .-]+: {_WORDS}(?:: |$)",
            r"^(?:(?P<good>ok)|(?P<warning>warning|unknown)|(?P<bad>problem)) {2,}",
            r"^(?:(?P<good>baked)|(?P<warning>left out|not captured|not understood|needs more|suspect)) {2,}(?!none$)",
            r"(?:: (?=UNEXPLAINED$)| {2}(?=DIFFERS|DAMAGED))(?P<bad>[A-Z]+)\b| {2}(?P<good>same)$",
            r"^(?:\[ *[\d.]+ s\] )?(?P<warning>warning):",
            r"^(?P<faint>\[ *[\d.]+ s\])",
            r"(?P<faint>\bsha256:[0-9a-f]{64}\b)",
            r"^(?P<label>run it|report|image|time|deviations|likeliest|no difference|differ|only in A|only in B):",
            r"^(?P<label>can be frozen): (?:(?P<good>yes)|(?P<warning>not yet))",
            r"^(?P<bad>error): ",
            r"^(?P<hint>hint): ",
        ),
    )
)
# The columns before the last one of a row, which has its cells two spaces apart.
_ROW = re.compile(r" *\S+(?: \S+)* {2,}(?=\S)")


def is_styled(stream: TextIO) -> bool:
    """Return whether a stream shows styles: a terminal does, and `FORCE_COLOR` makes any other one do so."""
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM", "") not in MUTE_TERMINALS


def print_report(text: str, stream: TextIO) -> None:
    """Print text for people, on a terminal with its styles.

    Characters that control a terminal are escaped.
    """
    lines = ["\t".join(map(escape_text, line.split("\t"))) for line in text.split("\n")]
    if not is_styled(stream):
        click.echo("\n".join(lines), file=stream)
        return
    console = make_console(stream)
    for line in lines:
        styled = style(line)
        console.print(hang(styled, console) if stream.isatty() else styled, soft_wrap=True)


def terminal_width(stream: TextIO) -> int:
    """Return the width of a terminal in columns, or 0 if the stream is no terminal."""
    return shutil.get_terminal_size().columns if stream.isatty() else 0


def make_console(stream: TextIO) -> Console:
    """Return rich's console for a stream."""
    from rich.console import Console
    from rich.theme import Theme

    # Without a colour system, rich leaves bold text out, too.
    system: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    theme = Theme(STYLES)
    return Console(file=stream, theme=theme, color_system=system, highlight=False, markup=False, emoji=False)


def style(line: str) -> Text:
    """Return a line of a report with styles for its own words."""
    from rich.text import Text

    text = Text(line)
    for place in _PLACES:
        text.highlight_regex(place)
    return text


def hang(line: Text, console: Console) -> Text:
    """Wrap a row that is too long, so that its last column goes on below itself.

    Prose and commands are left to the terminal, which keeps them in one piece when they are copied.
    """
    row = _ROW.match(line.plain)
    if row is None or line.cell_len <= console.width or row.end() > console.width // 2:
        return line
    from rich.text import Text

    last, room = line[row.end() :], console.width - row.end()
    if max(map(len, last.plain.split())) > room:  # a path or a digest, which people copy
        return line
    return line[: row.end()].append_text(Text("\n" + " " * row.end()).join(last.wrap(console, room)))
