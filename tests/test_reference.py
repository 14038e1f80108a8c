"""docs/reference.md is what the code gives now."""

from __future__ import annotations

import ast
import sys

import pytest

from reprobuild.cli import main as cli
from tests.conftest import ROOT

sys.path.append(str(ROOT / "dev"))

import scan_variables
import write_reference

FORGOTTEN = (
    "run `python dev/write_reference.py`, and commit docs/reference.md: the code gives another page now"
)


@pytest.fixture(scope="module")
def page() -> str:
    """The page of the code, which takes seconds to make."""
    return write_reference.page()


def test_the_page_is_that_of_the_code(page: str) -> None:
    assert write_reference.PAGE.read_text(encoding="utf-8") == page, FORGOTTEN


def test_each_verb_with_each_option_is_there(page: str) -> None:
    for verb in cli.COMMANDS:
        assert f"### reprobuild {verb}\n" in page
    for words in (
        "`--no-verify`",
        "| 11 | ",
        "| `workload` | keys, below |",
        "| `system` | `needed` or `all` |",
        "| `command` | list of text |",
        "| `docker-hub` | ",
        "`REPROBUILD_SEED`",
    ):
        assert words in page


def test_each_variable_is_described(page: str) -> None:
    lines = [line for line in page.split("\n") if write_reference.UNKNOWN in line]
    assert lines == [], "give each a line in dev/variables.toml, and run `python dev/write_reference.py`"


def test_no_variable_is_described_that_nobody_reads() -> None:
    rooms = (ROOT / "reprobuild", ROOT / "reprobuild_runtime")
    read = set(scan_variables.scan(path for room in rooms for path in room.rglob("*.py")))
    described = set(write_reference.meanings()) - set(write_reference.others())
    assert described - read == set(), "take these out of dev/variables.toml"


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("env.get('A')", {"A"}),
        ("os.environ['A']", {"A"}),
        ("os.environ['A'] = 'x'", set()),
        ("session.env.pop('A', None)", {"A"}),
        ("os.getenv('A')", {"A"}),
        ("'A' not in environ", {"A"}),
        ("options.get('A')", set()),
        ("B = 'A'\nenv.get(B)", {"A"}),
        ("for name in ('A', 'B'):\n    env.get(name)", {"A", "B"}),
        ("ALL = (('A',), ('B',))\nfor one in ALL:\n    [env[name] for name in one]", {"A", "B"}),
        ("def words(name):\n    return env.get(name)\nwords('A')", {"A"}),
        (
            "def one():\n    for name in ('A',):\n        print(name)\ndef two(name):\n    env.get(name)",
            set(),
        ),
    ],
)
def test_how_a_variable_is_read(source: str, names: set[str]) -> None:
    assert scan_variables.reads(ast.parse(source), scan_variables.constants(ast.parse(source), {})) == names
