"""The oddities of real captures, each read as the table says."""

from __future__ import annotations

import pytest

from tests.snapshot.oddities import told
from tests.snapshot.oddity_table import ODDITIES

CASES = [(kind, label) for kind, rows in ODDITIES.items() for label in rows]


@pytest.mark.parametrize(("kind", "label"), CASES, ids=[f"{kind}: {label}" for kind, label in CASES])
def test_each_oddity_is_read(kind: str, label: str) -> None:
    text, expected = ODDITIES[kind][label]
    assert told(kind, text) == expected


def test_an_oddity_reads_the_same_with_other_line_ends() -> None:
    """Where a file ends its lines in CRLF; diffs keep theirs, which belong to the content."""
    for kind, label in CASES:
        text, expected = ODDITIES[kind][label]
        if (
            kind != "git_diff"
            and "\r" not in text
            and not label.startswith(("BASH", "function", "continuation"))
        ):
            assert told(kind, text.replace("\n", "\r\n")) == expected, label


def test_an_oddity_reads_the_same_in_a_file_that_is_indented() -> None:
    for kind, label in CASES:
        text, expected = ODDITIES[kind][label]
        if kind != "git_diff" and not text.startswith("yaml: "):
            assert told(kind, "".join(f"    {row}\n" for row in text.split("\n"))) == expected, label
