"""What a person reads where many findings say the same."""

from __future__ import annotations

import pytest

from reprobuild.doctor.model import Diagnosis, DoctorFinding
from reprobuild.doctor.text import render_diagnosis


def silent(name: str) -> DoctorFinding:
    return DoctorFinding(
        name=f"service {name}", state="warning", seen=f"https://{name}.example/ cannot be reached",
        meaning="nothing comes from there", fix="name a mirror",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("count", "heads"), [(3, ["service s0", "service s1", "service s2"]), (4, ["4 services"])]
)
def test_a_long_row_of_the_same_is_told_once(count: int, heads: list[str]) -> None:
    answers = DoctorFinding(name="service other", state="ok", seen="https://other.example/ answers")
    found = Diagnosis(findings=(answers, *(silent(f"s{number}") for number in range(count))))
    text = render_diagnosis(found, "this machine")
    told = [line for line in text.splitlines() if line.startswith("warning")]
    assert [
        line.removeprefix("warning").strip().startswith(head) for line, head in zip(told, heads, strict=True)
    ] == [True] * len(heads)
    assert text.count("nothing comes from there") == text.count("fix: name a mirror") == 1
    assert all(f"s{number}" in text for number in range(count))
    assert "https://s0.example/ cannot be reached" in text
    assert text.endswith(f"({count} warnings, 1 ok)")
