"""The table of commands in docs/importing.md: made again by the program that wrote it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from reprobuild.snapshot.importers.formats import IMPORTERS
from tests.conftest import ROOT
from tests.snapshot.importers.typical import TYPICAL

sys.path.insert(0, str(ROOT / "dev"))
import write_commands


def test_the_table_of_the_page_is_that_of_the_program() -> None:
    text = write_commands.PAGE.read_text()
    assert write_commands.START in text
    assert write_commands.page(text) == text, "python dev/write_commands.py"


def test_each_format_has_an_import() -> None:
    words = {name.replace("`", "").removeprefix("a ").split()[0].lower() for name in TYPICAL}
    missing = [entry.name for entry in IMPORTERS if words.isdisjoint(entry.name.lower().split())]
    assert missing == []


def test_a_question_without_an_end_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A counter that cannot fail would prove nothing: here no answer of Python is taken."""
    monkeypatch.setattr(write_commands, "VALUES", {})
    (tmp_path / "requirements.txt").write_text("click==8.1.7\n")
    with pytest.raises(AssertionError):
        write_commands.follow(tmp_path / "requirements.txt")
