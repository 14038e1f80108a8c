"""`verify --workload` as people call it: drift has its exit code, and both reports name the artefact and the rule."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conftest import Built, reprobuild

LINE = (
    'echo "{\\"step\\": 1, \\"loss\\": $(od -An -N2 -tu2 /dev/urandom)}" >log.jsonl; '
    'echo 1 >"{out}/same.json"'
)


def test_drift_is_told_everywhere(built_example: Built, tmp_path: Path) -> None:
    out = built_example.copy(tmp_path / "out")
    done = reprobuild(
        "verify", out, "--store", built_example.store, "--no-probes", "--json",
        "--workload", LINE, "--output-file", "log.jsonl", "--output-file", "{out}/*.json",
    )  # fmt: skip
    assert done.returncode == 8, done.stderr
    assert json.loads(done.stdout)["verdict"]["determinism"]["cpu"] == "drift"
    verdict = json.loads((out / "verdict.json").read_text())
    drift, same = verdict["comparisons"]
    assert (drift["name"], drift["verdict"]) == ("artefact log.jsonl", "drift")
    assert drift["details"][0].startswith("log.jsonl: line 1 (step 1).loss: ")
    assert (same["name"], same["verdict"]) == ("artefact {out}/*.json", "identical")
    page = (out / "report.html").read_text()
    assert "log.jsonl: line 1 (step 1).loss: " in page
