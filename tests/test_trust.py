"""The trust model: each row of its tables names tests that are there."""

from __future__ import annotations

import re

from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "concepts" / "trust.md").read_text()


def rows(text: str) -> list[list[str]]:
    """Return the cells of each row of the tables that have a column of tests."""
    found: list[list[str]] = []
    tested = False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            tested = False
        elif cells[-1] == "test":
            tested = True
        elif tested and not set(cells[0]) <= {"-"}:
            found.append(cells)
    return found


def missing(row: list[str]) -> list[str]:
    """Return the tests of a row that are not there; the row itself where it names none."""
    names = re.findall(r"`([\w/]+\.py)`", row[-1])
    return [name for name in names if not (ROOT / "tests" / name).is_file()] if names else row


def test_each_row_has_its_tests() -> None:
    assert len(rows(PAGE)) > 25
    assert [row for row in rows(PAGE) if len(row) != 4 or missing(row)] == []


def test_a_row_without_a_test_is_seen() -> None:
    assert missing(["a", "b", "c", "`no/test_such.py`"]) == ["no/test_such.py"]
    assert missing(["a", "b", "c", "none"]) == ["a", "b", "c", "none"]


def test_each_command_group_has_a_table() -> None:
    headings = re.findall(r"(?m)^## (.*)$", PAGE)
    assert headings == [
        "In short", "Parties", "Reading never acts", "Locking asks the network",
        "Building executes packages, in a sandbox",
        "Running executes the image", "Sharing a store", "Secrets",
    ]  # fmt: skip


def test_the_security_policy_has_the_model_in_ten_lines() -> None:
    policy = (ROOT / "SECURITY.md").read_text()
    assert len(re.findall(r"(?m)^\d+\. ", policy)) == 10
    for heading in ("Report a vulnerability", "Supported versions", "Trust model"):
        assert f"## {heading}" in policy
