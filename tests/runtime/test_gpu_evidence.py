"""The one file for machines with a GPU: it works where there is none, too, and says what it did not cover."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "dev"))

import gpu_there  # noqa: E402  after the path


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("gpu") / "gpu-evidence.pyz"
    subprocess.run(
        [sys.executable, ROOT / "dev" / "gpu_evidence.py", target], check=True, capture_output=True
    )
    assert target.stat().st_size < 10_000_000
    return target


def test_a_machine_without_a_gpu(packed: Path, torch_python: Path, tmp_path: Path) -> None:
    parts = ["--part", "machine", "--part", "cuda", "--part", "cpu"]
    done = subprocess.run(
        [torch_python, packed, tmp_path / "out", "--quick", *parts],
        check=True,
        capture_output=True,
        text=True,
    )
    found = {path.stem: json.loads(path.read_text()) for path in (tmp_path / "out").iterdir()}
    assert set(found) == {"machine", "cuda", "cpu", "summary"}
    assert (found["cuda"]["ran"], found["cuda"]["why"]) == (False, "torch sees no CUDA device")
    assert found["cpu"]["start"]["hook"] == {"seed": "7", "explicit": "1", "hash_seed": "7"}
    assert {p["modes"]["strict"]["verdict"] for p in found["cpu"]["probes"]} == {"IDENTICAL"}
    assert "cuda: torch sees no CUDA device" in done.stdout
    assert "cpu: index_add: profile IDENTICAL 1/1 " in done.stdout, "a log alone keeps the verdicts"
    said = found["summary"]["not covered"]
    assert said[0] == gpu_there.NOT_OURS
    assert "cuda: torch sees no CUDA device" in said
    assert "part cuda-calm was not run" in said
    assert {line.partition(":")[0] for line in said} >= {"namespace root", "apptainer"}


def test_a_machine_without_torch(packed: Path, tmp_path: Path) -> None:
    """All parts, with a Python that has no torch: at most eight files, each of which says why."""
    python = [sys.executable, "-I", "-S", str(packed)]
    subprocess.run([*python, tmp_path / "out", "--quick", "--python", tmp_path / "none"], check=True)
    files = list((tmp_path / "out").iterdir())
    assert len(files) <= 8
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert sum("FileNotFoundError" in line for line in summary["not covered"]) >= 4


def test_the_slowdown_is_strict_mode_by_default() -> None:
    probes = [
        {"name": "a", "modes": {"default": {"median_ms": 2.0}, "strict": {"median_ms": 3.0}}},
        {"name": "b", "modes": {"default": {"median_ms": 2.0}, "strict": {"median_ms": None}}},
        {"name": "c", "modes": {"profile": {"median_ms": 2.0}}},
    ]
    assert gpu_there.slowdown(probes) == {"a": 1.5}


def test_what_is_not_covered_is_said() -> None:
    skipped = {"verdict": "SKIPPED", "why": "not applicable here: no Triton"}
    cuda = {"ran": True, "probes": [{"name": "x", "modes": {"strict": skipped}}],
            "collectives": {"verdict": "SKIPPED", "why": "one GPU: not covered"},
            "stress": {"ran": False, "why": "strict: it died by SIGKILL"}}  # fmt: skip
    seen = {"works": True, "gpu": True, "why": ""}
    said = gpu_there.uncovered({"cuda": cuda, "machine": {"containers": {"apptainer": seen}}})
    assert "cuda: x: not applicable here: no Triton" in said
    assert "collectives: one GPU: not covered" in said
    assert "cuda: the stress did not run: strict: it died by SIGKILL" in said
    assert not any(line.startswith("apptainer") for line in said)


def test_it_runs_on_python_3_8_with_the_standard_library() -> None:
    tree = ast.parse((ROOT / "dev" / "gpu_there.py").read_text(), feature_version=(3, 8))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in names} <= set(sys.stdlib_module_names)
