"""The GPU example and its experiment: the files belong together, it trains, and each claim can fail."""

from __future__ import annotations

import copy
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from proof import gpu_train
from proof.evidence import document
from proof.page import written
from reprobuild.snapshot.read import read_snapshot

PROJECT = gpu_train.EXAMPLE / "project"
DONE: dict[str, Any] = {
    "inputs": {"files": 189, "bytes": 3_100_000_000},
    "native": {
        "seconds": 200.0, "MiB": 160.0, "bytes of the image": 2_600_000_000, "layers": 20,
        "bytes more on disk at most": 5_200_000_000, "bytes more on disk after": 4_000_000_000,
    },
    "layers": {"seconds": 60.0, "the same layers": True},
    "checked": {"exit code": 0, "round_trip": "explained", "determinism": {"cpu": "identical"}},
    "docker": {"seconds": 240.0, "bytes of the image": 2_900_000_000},
    "second": {
        "changed": "numpy==1 to numpy==2", "seconds": 20.0, "bytes of the wheel": 18_000_000,
        "new layers": [19_000_000, 100_000], "bytes added to the store": 40_000_000,
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("step", "name", "value", "claim"),
    [
        ("native", "MiB", 513, "at most 512 MiB of memory"),
        ("native", "bytes more on disk at most", 5_200_000_001, "at most 2.0 times the image's size on disk"),
        ("layers", "the same layers", False, "the same layers again"),
        ("checked", "round_trip", "residue", "the freeze is explained"),
        ("checked", "exit code", 9, "the CPU scope holds"),
        ("checked", "determinism", {"cpu": "drift"}, "the CPU scope holds"),
        (
            "second",
            "new layers",
            [19_000_000, 1, 1],
            "a changed package adds its own layer and our own files",
        ),
        ("second", "new layers", [], "a changed package adds its own layer and our own files"),
        ("second", "new layers", [30_000_000], "a changed package adds only that"),
        ("second", "bytes added to the store", 90_000_000, "a changed package adds only that"),
    ],
)
def test_each_claim_can_fail(step: str, name: str, value: object, claim: str) -> None:
    assert gpu_train.broken(DONE) == []
    wrong = copy.deepcopy(DONE)
    wrong[step][name] = value
    assert gpu_train.broken(wrong) == [claim]


def test_the_table_stands_in_the_page(tmp_path: Path) -> None:
    about = {"cpu": "x", "cores": 2, "system": "y"}
    (tmp_path / "gpu-train-2026-01-01.json").write_text(
        document("gpu-train", gpu_train.MODULES, {**DONE, "broken": ["one claim"]}, about)
    )
    page = written("<!-- gpu-train -->\n<!-- end -->\n", tmp_path)
    assert "Claims that do not hold: one claim." in page
    assert "| native against Docker | 0.25 of the time, 0.90 of the size |" in page
    assert "| more on disk than the inputs, at most | 5.20 GB, 2.00 of the image |" in page


def test_disk_is_counted_once_for_each_file_and_its_peak_is_seen(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    (one / "before").write_bytes(b"x" * 8192)
    with gpu_train.Disk(one, other) as disk:
        other.mkdir()
        (one / "new").write_bytes(b"x" * 4096)
        os.link(one / "new", other / "same")
        assert disk.now() == 4096
        (other / "more").write_bytes(b"x" * 12288)
        disk._watch_once()
        (other / "more").unlink()
    assert (disk.most, disk.now()) == (16384, 4096)


def test_the_bundle_is_the_project_and_the_diff_applies_to_it(tmp_path: Path) -> None:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    clone = tmp_path / "clone"
    git("clone", "--quiet", "--branch", "main", str(gpu_train.EXAMPLE / "gputrain.bundle"), str(clone))
    names = git("-C", str(clone), "ls-files").splitlines()
    assert {name: (clone / name).read_bytes() for name in names} == {
        str(path.relative_to(PROJECT)): path.read_bytes() for path in PROJECT.rglob("*") if path.is_file()
    }
    snapshot = read_snapshot(gpu_train.EXAMPLE / "snapshot")
    (line,) = (line for line in snapshot.requirements if line.kind == "editable")
    assert git("-C", str(clone), "rev-parse", "HEAD") == line.commit
    git("-C", str(clone), "apply", str(gpu_train.EXAMPLE / "snapshot" / "gputrain.diff"))
    assert [remark for remark in snapshot.remarks if not remark.understood] == []
    assert snapshot.absent == ()
    sizes = [path.stat().st_size for path in gpu_train.EXAMPLE.rglob("*") if path.is_file()]
    assert sum(sizes) < 100_000


def test_it_trains_on_a_cpu(torch_python: Path, tmp_path: Path) -> None:
    """With a scaled loss, the longest way through the script; the experiment trains with bf16."""
    argv = [
        *(str(torch_python), str(PROJECT / "train.py"), "--device", "cpu", "--precision", "fp16"),
        *("--steps", "1", "--out", str(tmp_path / "checkpoint.pt")),
    ]
    env = {**os.environ, "PYTHONPATH": str(PROJECT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loss = float(done.stdout.partition("loss ")[2].split()[0])
    assert 1 < loss < 5
    assert "cpu fp16 checkpoint sha256" in done.stdout
    assert (tmp_path / "checkpoint.pt").stat().st_size > 1_000_000
