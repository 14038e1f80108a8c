"""The page on probes has the tables of its evidence, and names exactly the probes that there are."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "dev"), str(ROOT)]

import probe_table  # noqa: E402  after the path

from reprobuild.verify.determinism.document import Device, read_document  # noqa: E402  after the path
from reprobuild.verify.determinism.expected import PLACE, Expected  # noqa: E402  after the path
from reprobuild.verify.determinism.judge import judge_smoke  # noqa: E402  after the path
from reprobuild_runtime.probes import child  # noqa: E402  after the path
from reprobuild_runtime.probes.arrays import child as arrays  # noqa: E402  after the path

PAGE = probe_table.PAGE.read_text()
MEASURED = PAGE.partition(probe_table.BEGIN)[2].partition(probe_table.END)[0]
ON_CUDA = PAGE.partition(probe_table.BEGIN_CUDA)[2].partition(probe_table.END)[0]


def rows(heading: str, part: str = MEASURED) -> list[list[str]]:
    """Return the cells of the table with this heading."""
    table = part.partition(f"| {heading} |")[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in table]


def read_evidence(part: str) -> dict[str, Any]:
    """Return the evidence that this part of the page names."""
    (place,) = re.findall(r"\((evidence/probes-[\w-]+\.json)\)", part)
    content: dict[str, Any] = json.loads((probe_table.PAGE.parent / place).read_bytes())
    return content


@pytest.mark.parametrize("part", [MEASURED, ON_CUDA], ids=["cpu", "cuda"])
def test_the_tables_are_those_of_the_evidence(part: str) -> None:
    assert probe_table.tables(read_evidence(part)) in part


@pytest.mark.parametrize("part", [MEASURED, ON_CUDA], ids=["cpu", "cuda"])
def test_it_names_exactly_the_probes_that_there_are(part: str) -> None:
    known = child.register()
    assert [(row[0], row[1]) for row in rows("probe", part)] == [
        (name, probe.kind) for name, probe in known.items()
    ]


def test_the_measured_gpu_passes_the_rules_for_an_image() -> None:
    """The second container of a real test is short; here the full answer stands for it."""
    smoke = msgspec.json.encode(read_evidence(ON_CUDA)["smoke"])
    answer = read_document(smoke, "cuda")
    assert not isinstance(answer, str), answer
    expected = msgspec.json.decode(
        (ROOT / "reprobuild_runtime" / PLACE).read_bytes(), type=dict[Device, Expected]
    )
    judged = judge_smoke("cuda", answer, answer, expected["cuda"], controls=True)
    assert (judged.verdict, judged.open) == ("identical", ())
    assert {control.verdict for control in judged.controls} == {"effective"}
    verdicts = Counter(probe.verdict for probe in judged.probes)
    assert verdicts == {"identical": 68, "refused": 22, "informational": 4, "not-applicable": 3}


def test_only_the_informational_probes_drift_on_the_measured_gpu() -> None:
    strict = {row[0]: row[5] for row in rows("probe", ON_CUDA)}
    drifts = [name for name, cell in strict.items() if cell.startswith("DRIFT")]
    assert drifts == ["sparse_mm_backward", "sparse_csr_mm"]
    known = child.register()
    assert all("cuda" in known[name].informational for name in drifts)
    assert [row[3] for row in rows("control", ON_CUDA)] == ["effective"] * 3


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
