"""What a lock will do with each line of a freeze, without the network: shapes one by one, and real freezes by count.

The freezes of the corpus are others' and stay where they are: of each only the number of decisions by place is kept
here, and a hash of the decisions themselves. `python -m tests.resolve.test_decisions_of_lines FOLDER` prints both, and
with `-v` every decision, which is how they were reviewed.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from reprobuild.config.services import read_services
from reprobuild.resolve.python.classify import look_up_line
from reprobuild.snapshot.parsers import pip_freeze
from tests.resolve.decision_table import DECISIONS

GOLDEN = Path(__file__).with_name("decisions_of_freezes.toml")
FREEZES = Path(os.environ.get("REPROBUILD_CORPUS", "/nonexistent")) / "pip_freeze"


def decided(data: bytes, packages: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Return the decision on each line of a freeze: its number, name and version, and the fields of the lookup."""
    services = read_services({})
    lines, _ = pip_freeze.parse(data)
    return [
        (str(line.place.line), line.name, line.version or "", *msgspec.structs.astuple(found))
        for line in lines
        for found in [look_up_line(line, packages, services)]
    ]


def summary(rows: list[tuple[str, ...]]) -> dict[str, object]:
    """Return how many lines go where, and the sha256 of the canonical list."""
    text = "".join("\t".join(row) + "\n" for row in rows)
    places = Counter(row[3] for row in rows)
    return {"places": dict(sorted(places.items())), "sha256": hashlib.sha256(text.encode()).hexdigest()}


@pytest.mark.parametrize(("line", "packages", "expected"), DECISIONS, ids=[row[0][:60] for row in DECISIONS])
def test_where_a_line_of_this_shape_is_looked_for(
    line: str, packages: dict[str, str], expected: tuple[str, str, str, str]
) -> None:
    (row,) = decided(line.encode(), packages)
    assert row[3:] == expected


def test_every_place_is_in_the_table() -> None:
    assert {row[2][0] for row in DECISIONS} == {
        "index", "rule", "address", "local file", "folder", "source", "conda", "system", "vendor", "dropped", "nothing",
    }  # fmt: skip


def test_real_freezes_are_decided_as_they_were_reviewed() -> None:
    """Where the corpus is not at hand, its golden table is still one of hashes and counts that add up."""
    golden = msgspec.toml.decode(GOLDEN.read_bytes(), type=dict[str, dict[str, object]])
    assert len(golden) == 28
    assert all(len(str(one["sha256"])) == 64 for one in golden.values())
    if FREEZES.is_dir():
        found = {path.name: summary(decided(path.read_bytes(), {})) for path in FREEZES.iterdir()}
        assert found == golden


def test_another_decision_is_another_hash() -> None:
    one, other = decided(b"torch==2.3.1+cpu", {}), decided(b"torch==2.3.1+cpux", {})
    assert summary(one) != summary(other)


if __name__ == "__main__":
    for path in sorted(Path(sys.argv[1]).iterdir()):
        rows = decided(path.read_bytes(), {})
        found = summary(rows)
        places = ", ".join(f'"{place}" = {count}' for place, count in found["places"].items())  # type: ignore[attr-defined]  # a table of mixed values
        sys.stdout.write(f'["{path.name}"]\nplaces = {{{places}}}\nsha256 = "{found["sha256"]}"\n\n')
        if "-v" in sys.argv:
            sys.stdout.write("".join("  # " + " | ".join(row) + "\n" for row in rows))
