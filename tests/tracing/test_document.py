"""The document of `trace --json` is as docs/trace.schema.json describes it."""

from __future__ import annotations

import sys

from tests.conftest import ROOT

sys.path.append(str(ROOT / "dev"))

import write_schema

from reprobuild.trace.command import TraceResult


def test_the_schema_is_that_of_the_code() -> None:
    expected = write_schema.schema(TraceResult)
    assert write_schema.TRACE.read_text() == expected, "run `python dev/write_schema.py`"
