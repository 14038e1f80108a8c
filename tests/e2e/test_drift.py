"""The checks can fail: planted drift is found."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.conftest import EXAMPLE, Built, reprobuild

SNAPSHOT = EXAMPLE / "snapshot"


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def plant(example: Path, work: Path) -> None:
    """Let the captured diff shuffle by the clock, as people do without noticing."""
    git(work, "clone", "--quiet", "--branch", "main", str(example / "tinytrain.bundle"), "clone")
    clone = work / "clone"
    diff = example / "snapshot" / "tinytrain.diff"
    git(clone, "apply", str(diff))
    script = clone / "train.py"
    text = script.read_text()
    planted = text.replace(
        "import torch\n", "import time\n\nimport torch\n\ntorch.manual_seed(time.time_ns())\n", 1
    )
    assert planted != text
    script.write_text(planted)
    diff.write_text(git(clone, "diff"))


@pytest.mark.long
def test_a_shuffle_seeded_by_the_clock_is_drift(
    built_example: Built, example_copy: Path, tmp_path: Path
) -> None:
    plant(example_copy, tmp_path)
    done = reprobuild(
        "from-snapshot",
        example_copy / "snapshot",
        "--decisions",
        example_copy / "reprobuild.yaml",
        "-o",
        tmp_path / "out",
        "--store",
        built_example.store,
        "--no-probes",
        "--json",
    )
    assert done.returncode == 8, done.stderr
    verdict = json.loads(done.stdout)["verdict"]
    assert verdict["determinism"]["cpu"] == "drift"
    trace = verdict["work"]["trace"]
    assert trace["kind"] == "generator"
    assert "train.py:" in trace["place"]
