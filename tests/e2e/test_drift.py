"""The checks can fail: planted drift is found, and without the control nothing is called identical."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

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


def test_a_shuffle_seeded_by_the_clock_is_drift(
    built_example: Built, example_copy: Path, tmp_path: Path
) -> None:
    plant(example_copy, tmp_path)
    done = reprobuild(
        "from-snapshot",
        example_copy / "snapshot",
        "-o",
        tmp_path / "out",
        "--store",
        built_example.store,
        "--no-smoke",
        "--json",
    )
    assert done.returncode == 8, done.stderr
    assert json.loads(done.stdout)["verdict"]["determinism"]["cpu"] == "drift"


def test_without_the_controls_nothing_is_identical_and_one_other_digest_is_a_failure_that_names_the_probe(
    built_example: Built, tmp_path: Path
) -> None:
    """All other digests of the certificate come out again, in other containers."""
    certificate = json.loads(built_example.certificate)
    (cpu,) = certificate["smoke"]
    (probe,) = (each for each in cpu["probes"] if each["name"] == "index_add")
    probe["modes"]["strict"]["digest"] = "0" * 64
    earlier = tmp_path / "verdict.json"
    earlier.write_text(json.dumps(certificate))
    out = built_example.copy(tmp_path / "out")
    done = reprobuild(
        "verify", out, "--no-control", "--against", earlier, "--json", "--store", built_example.store
    )
    assert done.returncode == 8, done.stderr
    assert json.loads(done.stdout)["verdict"] == {
        "determinism": {"cpu": "inconclusive", "gpu": "not-applicable", "collectives": "identical"},
        "round_trip": "explained",
        "against": "differ",
    }
    found = json.loads((out / "verdict.json").read_bytes())["against"]
    assert [(each["scope"], each["name"]) for each in found["failed"]] == [("cpu", "index_add (strict)")]
    assert (found["platform"], found["unmatched"]) == ([], [])
    assert found["compared"] > 100
