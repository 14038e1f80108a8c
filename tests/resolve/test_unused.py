"""Decisions that name nothing of the snapshot are told, and nothing more: one file may serve many snapshots."""

from __future__ import annotations

from pathlib import Path

from reprobuild.config.overrides import BuildDecision, Decisions
from reprobuild.resolve.unused_overrides import describe_unused_overrides
from reprobuild.snapshot.read import read_snapshot


def test_a_project_that_was_not_captured_is_told(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(
        "My_Tool==1.0\n-e git+https://git.example/a/b.git@" + "a" * 40 + "#egg=job\n"
    )
    (tmp_path / "changed.diff").write_text("")
    snapshot = read_snapshot(tmp_path)
    right = Decisions(sources={"JOB": "/x"}, build={"my.tool": BuildDecision()})
    assert list(describe_unused_overrides(right, snapshot)) == []
    wrong = Decisions(sources={"jbo": "/x"}, build={"mytool": BuildDecision()})
    assert list(describe_unused_overrides(wrong, snapshot)) == [
        "--source jbo has no effect: no line and no repository of the snapshot has that name; did you mean `job`?",
        "build: mytool has no effect: no line and no repository of the snapshot has that name; did you mean `my-tool`?",
    ]
