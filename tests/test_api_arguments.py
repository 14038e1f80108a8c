"""`reprobuild.api`: an argument of another form is named, with the right one, before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reprobuild import api
from reprobuild.config.argument_forms import check_command, check_decisions
from reprobuild.errors import UsageError
from reprobuild.pipeline.verify_options import check_parts
from reprobuild.verify.verdict import PARTS

TEXT: Any = "no-apt-list"
NUMBER: Any = 3.11
PATH: Any = {"job": Path("job")}


def refused(call: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(UsageError) as caught:
        call()
    return str(caught.value), caught.value.hint


@pytest.mark.parametrize("function", [api.lock, api.from_snapshot])
@pytest.mark.parametrize(
    ("decisions", "field", "form"),
    [
        (api.Decisions(accept=TEXT), "accept", "write a sequence: accept=('no-apt-list',)"),
        (api.Decisions(python=NUMBER), "python", 'write text: python="3.11"'),
        (api.Decisions(seed=TEXT), "seed", "docs/decisions.md has the form of seed"),
    ],
)
def test_a_decision(
    function: Callable[..., Any], decisions: api.Decisions, field: str, form: str, tmp_path: Path
) -> None:
    what, hint = refused(lambda: function(tmp_path / "nothing", tmp_path / "out", decisions))
    assert what.startswith("Decisions: ")
    assert field in what
    assert hint == form


def test_the_right_forms_are_accepted() -> None:
    """Those of the hints, and a list in the place of a tuple."""
    words: Any = ["no-apt-list"]
    assert check_decisions(api.Decisions(accept=words, python="3.11")) == api.Decisions(
        accept=("no-apt-list",), python="3.11"
    )
    check_parts(api.VerifyOptions(parts=PARTS))
    check_command(["python", "-V"])


def test_a_value_that_no_decision_has() -> None:
    what, hint = refused(lambda: check_decisions(api.Decisions(sources=PATH)))
    assert what.startswith("Decisions: ")
    assert hint == "write text, numbers, tuples and dictionaries of text"


def test_a_part_of_a_check(tmp_path: Path) -> None:
    unknown: Any = ("roundtrip",)
    assert refused(lambda: api.VerifyOptions(parts=unknown))[0].endswith("'roundtrip' is no part of a check")
    what, hint = refused(lambda: api.verify(tmp_path, check=api.VerifyOptions(parts=unknown)))
    assert what == "VerifyOptions: parts: 'roundtrip' is no part of a check"
    assert hint == "did you mean `round-trip`?\nthe parts are: round-trip, probes, workload"
    what, hint = refused(
        lambda: api.from_snapshot(tmp_path, tmp_path, check=api.VerifyOptions(parts=unknown))
    )
    assert "'roundtrip' is no part" in what
    text: Any = "round-trip"
    assert refused(lambda: api.verify(tmp_path, check=api.VerifyOptions(parts=text))) == (
        "VerifyOptions: parts is one text",
        "write a sequence: parts=('round-trip',)",
    )


def test_a_command(tmp_path: Path) -> None:
    assert refused(lambda: api.run(tmp_path, "python -V")) == (
        "run: command is one text",
        "write its words: ['python', '-V']",
    )
    assert refused(lambda: api.run(tmp_path, "echo 'a"))[1] == "write its words: ['sh', '-c', \"echo 'a\"]"
    words: Any = ["sleep", 5]
    assert refused(lambda: api.run(tmp_path, words)) == (
        "run: command: 5 is no text",
        "write each word as text",
    )


def test_files_of_a_capture(tmp_path: Path) -> None:
    assert refused(lambda: api.capture(tmp_path, accept="a.key")) == (
        "capture: accept is one text",
        "write a sequence: accept=('a.key',)",
    )
