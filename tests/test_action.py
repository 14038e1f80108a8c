"""The action, without an engine: what a job has of it if the check fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT

ACTION = yaml.safe_load((ROOT / "action.yml").read_text())


@pytest.mark.parametrize("code", [0, 8])
def test_the_path_of_the_report_is_known_though_a_check_fails(code: int, tmp_path: Path) -> None:
    """GitHub runs a step by `bash -eo pipefail`; a stand-in for the program fails as `verify` does."""
    program, output = tmp_path / "bin" / "reprobuild", tmp_path / "output"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@"\nexit {code}\n')
    program.chmod(0o755)
    (step,) = [step for step in ACTION["runs"]["steps"] if step.get("id") == "verify"]
    env = {"PATH": f"{program.parent}:{os.defpath}", "OUT": "frozen", "ONLY": "round-trip workload"}
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]], check=False, cwd=tmp_path,
        env={**env, "GITHUB_OUTPUT": str(output)}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (code, "verify frozen --only round-trip --only workload\n")
    assert output.read_text() == "report=frozen/report.html\n"


def test_an_output_directory_with_a_line_break_sets_no_other_output(tmp_path: Path) -> None:
    (step,) = [step for step in ACTION["runs"]["steps"] if step.get("id") == "verify"]
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]], check=False, cwd=tmp_path,
        env={"PATH": os.defpath, "OUT": "x\nreport=y", "ONLY": "", "GITHUB_OUTPUT": str(tmp_path / "output")},
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (2, "error: the input out has a line break\n")
    assert not (tmp_path / "output").exists()


def test_no_file_of_the_checked_out_repository_runs(tmp_path: Path) -> None:
    """The working directory of a job has the files of whoever proposes a change."""
    (tmp_path / "pip.py").write_text("print('code of the repository')\n")
    step = ACTION["runs"]["steps"][0]
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]], check=False, cwd=tmp_path,
        env={"PATH": f"{Path(sys.executable).parent}:{os.defpath}", "ACTION": str(tmp_path / "absent")},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert "code of the repository" not in done.stdout
