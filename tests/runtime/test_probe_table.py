"""The page on probes has the tables of its evidence, and names exactly the probes that there are."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "dev"), str(ROOT)]

import probe_table  # noqa: E402  after the path

from reprobuild_runtime.probes import child  # noqa: E402  after the path
from reprobuild_runtime.probes.arrays import child as arrays  # noqa: E402  after the path

PAGE = probe_table.PAGE.read_text()
MEASURED = PAGE.partition(probe_table.BEGIN)[2].partition(probe_table.END)[0]


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table with this heading."""
    table = MEASURED.partition(f"| {heading} |")[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in table]


def test_the_tables_are_those_of_the_evidence() -> None:
    (place,) = re.findall(r"\((evidence/probes-cpu-[\d-]+\.json)\)", MEASURED)
    evidence = json.loads((PAGE_FOLDER / place).read_text())
    assert probe_table.tables(evidence) in MEASURED


PAGE_FOLDER = probe_table.PAGE.parent


def test_it_names_exactly_the_probes_that_there_are() -> None:
    known = child.register()
    assert [(row[0], row[1]) for row in rows("probe")] == [
        (name, probe.kind) for name, probe in known.items()
    ]


def test_it_names_exactly_the_probes_of_an_image_without_torch() -> None:
    part = PAGE.partition("## An image without torch")[2].partition("| mode | setting |")[0]
    named = re.findall(r"`((?:numpy|scipy|sklearn|python|jax|tensorflow)_\w+)`", part)
    assert named == sorted(named, key=list(arrays.register()).index)
    assert named == list(arrays.register())


def test_in_strict_mode_nothing_drifts_and_each_control_is_effective() -> None:
    strict = {row[0]: row[5] for row in rows("probe")}
    assert set(strict.values()) == {"IDENTICAL", "REFUSED", "SKIPPED"}
    assert len(rows("control")) == 8
    for name, default, cured, verdict in rows("control"):
        assert default.startswith("DRIFT: "), name
        assert (cured.partition(": ")[2], verdict) == ("IDENTICAL", "effective"), name


@pytest.mark.parametrize(
    ("mode", "cell"),
    [
        ({"verdict": "DRIFT", "distinct": 3, "repeats": 10}, "DRIFT: 3 results in 10 runs"),
        ({"verdict": "REFUSED", "distinct": 0, "repeats": 0}, "REFUSED"),
    ],
)
def test_a_cell(mode: dict[str, object], cell: str) -> None:
    assert probe_table._cell(mode) == cell
