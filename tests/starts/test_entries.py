"""Whole commands in a directory of decoys, started by the script that an installation has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reprobuild.capture import launch
from reprobuild.cli import cluster
from reprobuild.infra import proc
from reprobuild.lock.file import read_lock
from reprobuild.run.options import RunOptions
from reprobuild.run.slurm import own_command
from tests.conftest import EXAMPLE
from tests.starts.decoys import RELATIVE, Decoys

SCRIPT = Path(sys.executable).parent / "reprobuild"
WANTED = RunOptions()
# How this machine's own indexes are reached.
CERTIFICATES = (
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "http_proxy",
    "https_proxy",
    "no_proxy",
)
SNAPSHOT = EXAMPLE / "snapshot"


@pytest.fixture
def decoys(tmp_path: Path) -> Decoys:
    return Decoys(tmp_path / "decoys")


def command(decoys: Decoys, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command among decoys, with relative entries of PATH before all others."""
    home = decoys.place.parent / "home"
    home.mkdir(exist_ok=True)
    env = {
        "PATH": f"{RELATIVE}:{os.environ['PATH']}", "HOME": str(home), "XDG_CONFIG_HOME": ".", "XDG_CACHE_HOME": ".",
        "UV_PYTHON_DOWNLOADS_JSON_URL": os.environ["UV_PYTHON_DOWNLOADS_JSON_URL"],
    }  # fmt: skip
    env |= {name: os.environ[name] for name in CERTIFICATES if name in os.environ}
    argv = [SCRIPT, *map(str, words)]
    return subprocess.run(
        argv, cwd=decoys.place, env=env, capture_output=True, text=True, timeout=300, check=False
    )


def test_nothing_of_the_directory_runs(decoys: Decoys, tmp_path: Path) -> None:
    show = command(decoys, "show", SNAPSHOT)
    assert show.returncode == 0, show.stderr
    compare = command(decoys, "compare", SNAPSHOT, SNAPSHOT)
    assert compare.returncode == 0, compare.stderr
    assert command(decoys, "doctor", "--offline").returncode in (0, 6)
    assert decoys.marks == []
    assert not (
        decoys.place / "reprobuild" / "blobs"
    ).exists()  # XDG_CACHE_HOME is ignored where it is relative


def test_nothing_of_the_directory_runs_while_a_lock_is_made(decoys: Decoys, tmp_path: Path) -> None:
    """pip is asked for the indexes of this machine, in a process of its own."""
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    (snapshot / "requirements.txt").write_text("six==1.16.0\n")
    decided = ("--python", "3.11", "--base", "debian/bookworm", "--accept", "no-apt-list")
    lock = command(decoys, "lock", snapshot, "-o", tmp_path / "x.lock", *decided)
    assert lock.returncode == 0, lock.stderr
    assert [wheel.name for wheel in read_lock(tmp_path / "x.lock").wheels] == ["six"]
    assert "DECOY" not in lock.stderr + lock.stdout
    assert "decoy.invalid" not in lock.stderr + lock.stdout
    assert decoys.marks == []


def test_nothing_of_the_directory_that_is_captured_runs(decoys: Decoys, tmp_path: Path) -> None:
    done = command(decoys, "capture", "-o", tmp_path / "snapshot")
    assert done.returncode == 0, done.stderr
    assert decoys.marks == []
    env = (tmp_path / "snapshot" / "env.nul").read_bytes()
    assert f"PATH={RELATIVE}:".encode() in env


def test_nothing_of_the_directory_runs_by_the_recipe_in_bash(decoys: Decoys, tmp_path: Path) -> None:
    path = f"{RELATIVE}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    argv = ["/bin/bash", "-s", "--", str(tmp_path / "snapshot")]
    subprocess.run(
        argv, input=launch.read_capture_recipe(), cwd=decoys.place, env={"PATH": path}, text=True, check=True
    )
    assert decoys.marks == []
    assert f"PATH={path}\0" in (tmp_path / "snapshot/env.txt").read_text()
    assert "pytest==" in (tmp_path / "snapshot/requirements.txt").read_text()


@pytest.mark.parametrize("words", ["run", "cluster"])
def test_a_rank_of_slurm_starts_nothing_of_the_directory(
    words: str, decoys: Decoys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """srun starts ranks in the directory that it was started in; here it is one that starts them at once."""
    srun = tmp_path / "srun"
    srun.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n')
    srun.chmod(0o755)
    monkeypatch.chdir(decoys.place)
    if words == "run":
        argv = own_command(tmp_path / "out", ["true"], WANTED, [])
        assert argv[:2] == ["srun", "--"]
    else:
        argv = [
            "srun",
            "--",
            *cluster.PROGRAM,
            "cluster",
            "worker",
            str(tmp_path / "out"),
            "--out",
            str(tmp_path),
        ]
    said = bytearray()
    env = {"PATH": f"{RELATIVE}:{tmp_path}:{os.defpath}", "HOME": str(tmp_path)}
    code = proc.stream(argv, env=env, purpose="test", sink=lambda _, data: said.extend(data))
    assert code not in (0, 1), said
    assert b"out" in said
    assert b"error: " in said
    assert decoys.marks == []
