"""torch's own tests: what is read of a report, what counts as answered otherwise, and that nothing passes for force."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from proof import evidence, page, torch_tests

CLASS = "test_torch.TestTorchDeviceTypeCPU"
REPORT = f"""<?xml version="1.0" encoding="utf-8"?><testsuites><testsuite name="pytest" tests="4">
<testcase classname="{CLASS}" name="test_a_cpu" time="0.1" />
<testcase classname="{CLASS}" name="test_b_cpu"><skipped type="x" message="Only CUDA">y</skipped></testcase>
<testcase classname="{CLASS}" name="test_c_cpu"><failure message="assert">z</failure></testcase>
<testcase classname="{CLASS}" name="test_d_cpu"><error message="at setup">z</error></testcase>
</testsuite></testsuites>"""


def test_what_a_report_says(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(REPORT)
    above = f"{CLASS}::test_"
    assert torch_tests.answers(tmp_path / "report.xml") == {
        f"{above}a_cpu": "passed", f"{above}b_cpu": "skipped: Only CUDA", f"{above}c_cpu": "failed",
        f"{above}d_cpu": "failed",
    }  # fmt: skip


def test_each_other_answer_is_told() -> None:
    bare = {"one": "passed", "two": "failed", "three": "skipped: x", "four": "passed"}
    assert torch_tests.compare({"bare": bare, "torch": dict(bare)}) == []
    other = {"one": "failed", "two": "passed", "three": "skipped: y", "five": "passed"}
    assert torch_tests.compare({"bare": bare, "strict": other}) == [
        "strict: five: not there without us, passed",
        "strict: four: passed without us, not there",
        "strict: one: passed without us, failed",
        "strict: three: skipped: x without us, skipped: y",
        "strict: two: failed without us, passed",
    ]


def test_a_profile_that_is_not_in_force_is_no_evidence(torch_python: Path, tmp_path: Path) -> None:
    """The same interpreter, with the hook and without."""
    env = {"PATH": os.environ["PATH"], "REPROBUILD_RECORD": "", "REPROBUILD_SEED": "7"}
    entrypoint = str(evidence.ROOT / "reprobuild_runtime" / "entrypoint.py")
    start = [sys.executable, "-I", "-S", entrypoint, str(torch_python)]
    for profile in ("torch", "strict"):
        torch_tests._check_force(start, {**env, "REPROBUILD_PROFILE": profile}, profile)
    with pytest.raises(RuntimeError, match="the profile strict is not in force: 7 True False"):
        torch_tests._check_force(start, {**env, "REPROBUILD_PROFILE": "torch"}, "strict")
    with pytest.raises(RuntimeError, match="the profile torch is not in force"):
        torch_tests._check_force([*start, "-S"], {**env, "REPROBUILD_PROFILE": "torch"}, "torch")


def test_the_rooms_are_there() -> None:
    for module in torch_tests.MODULES:
        assert evidence.module_hash(module) != evidence.module_hash("reprobuild_runtime/supervise")


def test_the_table() -> None:
    found = {
        "date": "2026-01-02", "machine": evidence.machine(), "torch": "2.6.0+cu124", "gpu": False, "seed": 7,
        "chosen": "x", "otherwise": ["one"], "answers": {"bare": {"passed": 3}, "strict": {"passed": 2, "failed": 1}},
    }  # fmt: skip
    text = page._torch(found)
    assert "without a GPU" in text
    assert "answered otherwise than without us: 1." in text
    assert "| strict | 1 | 2 |" in text
