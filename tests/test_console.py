"""Colours and wrapped rows: on a terminal alone, and never by the names and values of others."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from reprobuild.cli.console import STYLES
from reprobuild.infra.columns import align
from tests.conftest import EXAMPLE, PROGRAM, ROOT
from tests.screen import screen

PRINT = "import sys; from reprobuild.cli import console; console.print_report(sys.argv[1], sys.stdout)"
SEQUENCE = re.compile(r"\x1b\[[0-9;]*m")
COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-7]")
SETTINGS = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM")
ENV = {name: value for name, value in os.environ.items() if name not in SETTINGS}
END = "(end of the report)"


def at_terminal(text: str, **env: str) -> str:
    """Print a report on a terminal of 90 columns, and return the part that arrives there."""
    words = [sys.executable, "-c", PRINT, f"{text}\n{END}"]
    with screen(words, {**ENV, "TERM": "xterm-256color", **env}) as terminal:
        return terminal.wait_for(END).replace("\r\n", "\n").removesuffix("\n")


def in_pipe(text: str, **env: str) -> str:
    words = [sys.executable, "-c", PRINT, text]
    done = subprocess.run(words, cwd=ROOT, env={**ENV, **env}, capture_output=True, text=True, check=True)
    return done.stdout


def styled(word: str, style: str) -> str:
    codes = {"green": "32", "yellow": "33", "bold red": "1;31", "bold": "1", "dim": "2", "cyan": "36"}
    return f"\x1b[{codes[STYLES[style]]}m{word}\x1b[0m"


DETERMINISM = "determinism: cpu drift (torch: 8 probes), gpu not-covered, collectives identical"
OUTCOMES = "requirements.txt  49 pinned, 2 excluded, 1 unresolved"
DIGEST = f"sha256:{'0' * 64}"


@pytest.mark.parametrize(
    ("line", "word", "style"),
    [
        ("round trip: explained", "explained", "good"),
        ("round trip: residue", "residue", "bad"),
        (DETERMINISM, "drift", "bad"),
        (DETERMINISM, "not-covered", "warning"),
        (DETERMINISM, "identical", "good"),
        (OUTCOMES, "pinned", "good"),
        (OUTCOMES, "excluded", "warning"),
        (OUTCOMES, "unresolved", "bad"),
        ("  requirements.txt:3: a: replaced (withdrawn): no index has it", "replaced", "warning"),
        ("  env.txt: captured A, image nothing: UNEXPLAINED", "UNEXPLAINED", "bad"),
        ("  dropout: drift: 1 and 2", "drift", "bad"),
        (f"tree      {DIGEST}  same", "same", "good"),
        (f"tree      {DIGEST}  DIFFERS, was {DIGEST}", "DIFFERS", "bad"),
        ("ok         python      3.11", "ok", "good"),
        ("problem    engine      none answers", "problem", "bad"),
        ("baked         LANG (locale): changes text", "baked", "good"),
        ("needs more      requirements.txt:41: editable", "needs more", "warning"),
        ("[   0.1 s] warning: the disk is full", "warning", "warning"),
        ("can be frozen: yes, if indexes and archives still have each version; next: x", "yes", "good"),
        ("can be frozen: not yet, 2 open questions", "not yet", "warning"),
        ("error: wrong", "error", "bad"),
        ("hint: mend it", "hint", "hint"),
        (f"lock      {DIGEST}", DIGEST, "faint"),
    ],
)
def test_words_of_reports_have_colours(line: str, word: str, style: str) -> None:
    text = at_terminal(line, COLUMNS="200")
    assert styled(word, style) in text
    assert SEQUENCE.sub("", text) == line


REPORT = "requirements.txt  49 pinned, 1 replaced\nround trip: explained"


def test_a_pipe_gets_the_text_as_it_is() -> None:
    assert in_pipe(REPORT) == f"{REPORT}\n"
    row = "row  " + "word " * 100
    assert in_pipe(row, COLUMNS="40") == f"{row}\n"


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_that_only_prints(term: str) -> None:
    assert at_terminal(REPORT, TERM=term) == REPORT


def test_no_color_leaves_no_colour() -> None:
    assert COLOUR.search(at_terminal(REPORT))
    assert at_terminal(REPORT, NO_COLOR="1") == REPORT
    assert in_pipe(REPORT, NO_COLOR="1", FORCE_COLOR="1", TERM="xterm") == f"{REPORT}\n"


def test_colours_of_a_log_can_be_forced() -> None:
    """A CI server may show colours; a row stays on one line all the same."""
    row = "baked         LANG (locale): " + "word " * 40
    text = in_pipe(row, FORCE_COLOR="1", TERM="xterm", COLUMNS="40")
    assert styled("baked", "good") in text
    assert SEQUENCE.sub("", text) == f"{row}\n"
    assert in_pipe(row, FORCE_COLOR="", TERM="xterm") == f"{row}\n"


HOSTILE = (
    "[red]x[/red]",
    "[/]",
    "[link=https://example.org]x",
    ":smile:",
    "\x1b[31mred\x1b]0;x\a",
    "\u202e[bold]",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_markup_in_a_name_has_no_effect(name: str) -> None:
    visible = name if name.isprintable() else name.encode("unicode_escape").decode()
    assert at_terminal(f"  {name} is here") == f"  {visible} is here"
    assert in_pipe(f"  {name} is here") == f"  {visible} is here\n"
    assert align([(visible, "b"), ("a", visible)])[0] == f"{visible}  b"


def test_a_long_row_goes_on_below_its_last_column() -> None:
    reason = " ".join(f"word{number}" for number in range(30))
    lines = [SEQUENCE.sub("", line) for line in at_terminal(f"left out      NAME: {reason}").split("\n")]
    assert len(lines) > 2
    assert all(len(line) <= 90 for line in lines)
    assert all(re.match(r" {14}word", line) for line in lines[1:])
    assert " ".join(line.strip() for line in lines) == f"left out      NAME: {reason}"


def test_prose_and_commands_stay_in_one_piece() -> None:
    """The terminal breaks them, and a person copies one line."""
    for line in (
        f"run it: reprobuild run {'x' * 200} --seed 7 -- COMMAND",
        f"snapshot      at /{'x' * 90} and more",
    ):
        assert SEQUENCE.sub("", at_terminal(line)) == line


def test_columns() -> None:
    assert align([]) == []
    assert align([("a", "bb", "c " * 50 + "d"), ("aaa", "b", "")]) == [f"a    bb  {'c ' * 50}d", "aaa  b"]
    assert align([("a", "c " * 20), ("bbb", "d")], width=25) == [
        "a    c c c c c c c c c c", "     c c c c c c c c c c", "bbb  d",
    ]  # fmt: skip


def test_show_on_a_terminal() -> None:
    words = [*PROGRAM, "show", str(EXAMPLE / "snapshot")]
    with screen(words, {**ENV, "TERM": "xterm-256color"}) as terminal:
        text = terminal.wait_for("all with --json")
    assert styled("baked", "good") in text
    assert styled("needs more", "warning") in text
