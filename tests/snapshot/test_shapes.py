"""The table by shape in docs/secrets.md is what the rules find now."""

from __future__ import annotations

import sys

from tests.conftest import ROOT

sys.path.append(str(ROOT / "dev"))

import write_shapes


def test_the_table_by_shape_is_that_of_the_rules() -> None:
    text = write_shapes.PAGE.read_text(encoding="utf-8")
    assert text.count(write_shapes.START) == text.count(write_shapes.END) == 1
    assert text == write_shapes.page(text), "run `python dev/write_shapes.py`, and commit docs/secrets.md"
