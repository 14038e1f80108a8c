"""What a person reads where many findings say the same."""

from __future__ import annotations

import msgspec
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
    assert text.endswith(f"({len(heads)} warning{'s' if len(heads) > 1 else ''}, 1 ok)")


def test_a_finding_of_each_kind_and_one_fix_of_all() -> None:
    findings = [
        msgspec.structs.replace(silent(f"{kind}{number}"), meaning=f"no {kind} come from there")
        for kind in ("wheels", "images")
        for number in range(5)
    ]
    text = render_diagnosis(Diagnosis(findings=tuple(findings)), "this machine")
    assert [" ".join(line.split()) for line in text.splitlines()] == [
        "warning 5 services wheels0, wheels1, wheels2, wheels3, wheels4; the first: https://wheels0.example/ cannot be "
        "reached",
        "no wheels come from there",
        "warning 5 services images0, images1, images2, images3, images4; the first: https://images0.example/ cannot be "
        "reached",
        "no images come from there",
        "fix: name a mirror",
        "",
        "this machine: it is ready, with the warnings above (2 warnings)",
    ]


@pytest.mark.parametrize("width", [0, 60, 80])
def test_a_command_stays_on_one_line_and_in_a_pipe_each_text_does(width: int) -> None:
    command = (
        "`sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 and some more words that are long`"
    )
    finding = DoctorFinding(
        name="sandbox", state="problem", seen="one word after another " * 8, meaning="m",
        fix=f"a few words before it, and then the command: {command}; a file keeps it",
    )  # fmt: skip
    text = render_diagnosis(Diagnosis(findings=(finding,)), "this machine", width)
    assert any(command in line for line in text.splitlines())
    assert "\N{NO-BREAK SPACE}" not in text
    if not width:
        assert len(text.splitlines()) == 5
