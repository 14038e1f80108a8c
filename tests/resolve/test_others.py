"""Packages of conda and rpm: a ruling for each line."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprobuild.config.overrides import Decisions
from reprobuild.resolve.environment.triage import triage_snapshot
from reprobuild.resolve.not_installed import find_conda_python
from reprobuild.snapshot.read import read_snapshot


def test_each_package_has_its_ruling(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("PyYAML==6.0\ntorch==2.5.1\n")
    (tmp_path / "conda-list.txt").write_text(
        "python 3.11.5 h1_0\npyyaml 6.0 py311_0\nmkl 2023.1.0 h2_46343\nffmpeg 4.3 hf484d3e_0\n"
        "pytorch 2.5.1 py3.11_cuda12.4\n"
    )
    (tmp_path / "rpm-packages.txt").write_text("bash 5.1-2.el9 x86_64\n")
    rulings = triage_snapshot(read_snapshot(tmp_path), Decisions(python="3.11", drop=("ff*",))).rulings
    assert [(r.file, r.line, r.subject, r.outcome, r.kind) for r in rulings] == [
        ("conda-list.txt", 1, "python", "excluded", "conda"), ("conda-list.txt", 2, "pyyaml", "excluded", "conda"),
        ("conda-list.txt", 3, "mkl", "unresolved", "conda-package"),
        ("conda-list.txt", 4, "ffmpeg", "excluded", "decision"),
        ("conda-list.txt", 5, "pytorch", "excluded", "conda"),
        ("rpm-packages.txt", 1, "bash", "excluded", "host-package"),
    ]  # fmt: skip
    assert rulings[2].reason == (
        "2023.1.0 h2_46343 of conda: the image's Python is not conda's, and no wheel was captured for it"
    )


@pytest.mark.parametrize(
    ("build", "decided", "kept"),
    [
        ("h1_0", None, True), ("h1_0", "3.13.1", True), ("h1_0", "3.13", False), ("h1_0", "3.13.2", False),
        ("h1_0", "3.13.1t", False), ("h1_5_cp313t", "3.13.1t", True), ("h1_5_cp313t", "3.13.1", False),
    ],
)  # fmt: skip
def test_the_very_python_of_conda_keeps_conda(
    build: str, decided: str | None, kept: bool, tmp_path: Path
) -> None:
    (tmp_path / "conda-list.txt").write_text(f"python 3.13.1 {build}\n")
    found = find_conda_python(read_snapshot(tmp_path), Decisions(python=decided))
    assert (found is not None) == kept
