"""`reprobuild compare` as people call it: what it prints, its codes, and the running environment."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from reprobuild.cli import main as cli
from reprobuild.compare.environments.open import Running, capture_here, compare
from reprobuild.compare.environments.snapshot import from_snapshot
from reprobuild.errors import SnapshotError
from reprobuild.lock.file import write_lock
from tests.capture.repositories import BASE
from tests.capture.test_secrets import plant_distribution
from tests.compare.samples import NO_ENGINE, SNAPSHOT, compared, make_image
from tests.conftest import ROOT, reprobuild
from tests.verify.samples import make_lock

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
PRELOAD = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"


@pytest.fixture
def other_job(tmp_path: Path) -> Path:
    """The example's environment in another job: without the preload, eight packages newer, and noise."""
    other = tmp_path / "other"
    other.mkdir()
    for path in SNAPSHOT.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    variables = (other / "env.txt").read_text().splitlines(keepends=True)
    kept = [line for line in variables if not line.startswith("LD_PRELOAD=")]
    (other / "env.txt").write_text("".join(kept).replace("48213", "48777").replace("n1", "n2"))
    freeze = (other / "requirements.txt").read_text()
    for old, new in (
        ("anyio==4.16.0", "anyio==4.17.0"), ("click==8.5.1", "click==8.5.2"), ("h11==0.16.0", "h11==0.17"),
        ("idna==3.20", "idna==3.21"), ("rich==15.0.0", "rich==15.1"), ("tqdm==4.70.1", "tqdm==4.71"),
        ("urllib3==2.8.0", "urllib3==2.9"), ("sympy==1.14.0", "sympy==1.15"),
    ):  # fmt: skip
        assert old in freeze
        freeze = freeze.replace(old, new)
    (other / "requirements.txt").write_text(freeze)
    return other


def test_one_preload_eight_packages_and_noise(other_job: Path) -> None:
    done = reprobuild("compare", SNAPSHOT, other_job)
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"likeliest: LD_PRELOAD, only in A: {PRELOAD} (loaded into every process ")
    assert lines.index("only in A: 1") < lines.index("differ: 8")
    assert "SLURM" not in done.stdout
    (noise,) = [line for line in lines if line.startswith("noise: ")]
    assert int(noise.split()[1]) > 5


def test_a_line_of_the_users_own_code_is_likelier_than_numpy(tmp_path: Path) -> None:
    """Another learning rate comes before another NumPy, which the code may not use for what differs."""
    other = tmp_path / "other"
    other.mkdir()
    for path in SNAPSHOT.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    diff = (other / "tinytrain.diff").read_text()
    (added, *_) = [line for line in diff.splitlines() if line.startswith("+") and not line.startswith("+++")]
    (other / "tinytrain.diff").write_text(diff.replace(f"{added}\n", f"{added}  # 3e-4\n", 1))
    freeze = (other / "requirements.txt").read_text()
    (other / "requirements.txt").write_text(freeze.replace("numpy==2.4.6", "numpy==2.4.7"))
    done = reprobuild("compare", SNAPSHOT, other)
    first, *rest = done.stdout.splitlines()
    assert first.startswith("likeliest: tinytrain")
    assert any("numpy" in line for line in rest)


def test_as_one_document(other_job: Path) -> None:
    done = reprobuild("compare", other_job, SNAPSHOT, "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 1
    assert found["one"] == {"name": str(other_job), "form": "snapshot"}
    (preload,) = found["only_in_other"]
    assert preload.pop("reason")
    assert preload == {
        "rank": 1, "group": "preload", "kind": "environment", "name": "LD_PRELOAD", "one": None, "other": PRELOAD,
        "aspects": [], "noise": False, "note": "", "left_out": False,
    }  # fmt: skip
    packages = [row["name"] for row in found["differ"] if not row["noise"]]
    assert packages == sorted(packages)
    assert len(packages) == 8
    assert found["only_in_one"] == []
    assert all(row.keys() == {"kind", "reason", "names", "grave"} for row in found["not_compared"])


def test_the_same_but_for_noise(other_job: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("env.txt", "requirements.txt"):
        text = (SNAPSHOT / name).read_text()
        (other_job / name).write_text(text.replace("SLURM_JOB_ID=48213", "SLURM_JOB_ID=1"))
    assert cli.run_line(["compare", str(SNAPSHOT), str(other_job)]) == 0
    assert capfd.readouterr().out.startswith("no difference but noise: 1, ")
    assert cli.run_line(["compare", str(SNAPSHOT), str(other_job), "--verbose"]) == 0
    assert "SLURM_JOB_ID  48213 -> 1  of the session or the job" in capfd.readouterr().out


def test_names_that_are_no_text(tmp_path: Path) -> None:
    image = make_image(tmp_path / "image")
    document = reprobuild("compare", SNAPSHOT, image, "--json")
    assert document.returncode == 1
    assert document.stdout.isascii()


def test_a_snapshot_and_a_lock(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_lock(make_lock(), tmp_path / "reprobuild.lock")
    assert cli.run_line(["compare", str(SNAPSHOT), str(tmp_path)]) == 1
    out = capfd.readouterr().out
    assert out.startswith(f"likeliest: LD_PRELOAD, only in A: {PRELOAD} (")
    assert f"B  {tmp_path} (lock)" in out
    assert "  modules: B does not record it" in out.splitlines()


# --- here ------------------------------------------------------------------------------------


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A directory that no repository holds, to run in."""
    folder = tmp_path / "job"
    folder.mkdir()
    return folder


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", folder, *arguments], check=True)


def test_the_running_environment_is_that_of_its_capture(job: Path, tmp_path: Path) -> None:
    env = {**clean_environment(), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "3"}
    taken = reprobuild("capture", "-o", tmp_path / "snapshot", env=env, cwd=job)
    assert taken.returncode == 0, taken.stderr
    for diff in (tmp_path / "snapshot").glob("*.diff"):  # of this checkout, whose tests hold planted secrets
        diff.unlink()
    again = {**env, "SLURM_JOB_ID": "7"}
    done = reprobuild("compare", tmp_path / "snapshot", "here", "--json", env=again, cwd=job)
    found = json.loads(done.stdout)
    assert "capturing the running environment" in done.stderr
    rows = [*found["differ"], *found["only_in_one"], *found["only_in_other"]]
    assert {row["name"] for row in rows if row["kind"] != "source"} == {"SLURM_JOB_ID"}
    changed = {**again, "OMP_NUM_THREADS": "4", "LD_PRELOAD": "", "LD_LIBRARY_PATH": "/nonexistent"}
    done = reprobuild("compare", "here", tmp_path / "snapshot", env=changed, cwd=job)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0].startswith("likeliest: LD_LIBRARY_PATH, only in A: /nonexistent (")
    assert any(line.split()[:5] == ["environment", "OMP_NUM_THREADS", "4", "->", "3"] for line in lines)


@pytest.mark.parametrize("installed", [False, True])
def test_uncommitted_changes_are_compared_by_their_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, installed: bool
) -> None:
    """A capture of `here` loses its diffs, as one may hold a secret, and keeps their hashes."""
    job = tmp_path / "mysim"
    job.mkdir()
    git(job, "init", "--quiet")
    (job / "pyproject.toml").write_text('[project]\nname = "mysim"\nversion = "1"\n')
    (job / "train.py").write_text("print(1)\n")
    git(job, "add", ".")
    git(job, "commit", "--quiet", "-m", "one")
    (job / "train.py").write_text("print(2)\n")
    subprocess.run([BASE, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    (site,) = (tmp_path / "venv/lib").glob("python3*/site-packages")
    if installed:
        plant_distribution(site, "mysim", {"url": job.as_uri(), "dir_info": {"editable": True}})
    python = tmp_path / "venv/bin/python"
    running = Running(python=str(python), env={"PATH": f"{python.parent}:{os.environ['PATH']}"})
    captured = tmp_path / "snapshot"
    monkeypatch.chdir(job)
    capture_here(running, captured)
    assert (captured / ("mysim.diff" if installed else "mysim.patch")).is_file()
    same = compare(str(captured), "here", running, NO_ENGINE, lambda text: None)
    assert (same.differ, same.only_in_one, same.only_in_other) == ((), (), ())
    (job / "train.py").write_text("print(3)\n")
    changed = compare(str(captured), "here", running, NO_ENGINE, lambda text: None)
    assert [item.name for item in changed.differ] == ["mysim"]


def test_here_and_here(job: Path) -> None:
    git(job, "init", "--quiet")
    (job / "train.py").write_text("print(1)\n")
    git(job, "add", "train.py")
    git(job, "commit", "--quiet", "-m", "one")
    (job / "train.py").write_text(f"token = {SECRET!r}\n")
    env = {**clean_environment(), "PYTHONPATH": str(ROOT)}
    done = reprobuild("compare", "here", "here", env=env, cwd=job)
    first = "no difference; in doubt: 2 of the things that were not compared, see below"
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, first), done.stdout
    assert (
        "in doubt: the job's own repositories: A leaves the content of files out (1: job/train.py)"
        in done.stdout
    )
    assert SECRET not in done.stdout + done.stderr


def test_what_here_knows(job: Path, tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "WANDB_API_KEY": "0123456789abcdef" * 2}
    running = Running(python=sys.executable, env=env)
    found = compare("here", str(SNAPSHOT), running, NO_ENGINE, lambda text: None)
    kinds = {item.kind: item.reason for item in found.not_compared if item.reason == "B does not record it"}
    assert {"interpreter", "machine", "release"} <= kinds.keys()
    assert "0123456789abcdef" not in repr(found)


def test_here_that_cannot_be_captured(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho it is broken >&2\nexit 3\n")
    program.chmod(0o755)
    with pytest.raises(
        SnapshotError, match="the running environment could not be captured: it is broken"
    ) as failed:
        compared("here", SNAPSHOT, Running(python=str(program), env={"PATH": os.defpath}))
    assert failed.value.hint == "`reprobuild capture -o DIR` tells more; name DIR in place of `here`"


def test_a_capture_of_this_machine_is_read_whole(job: Path, tmp_path: Path) -> None:
    env = {**clean_environment(), "PYTHONPATH": str(ROOT)}
    assert reprobuild("capture", "-o", tmp_path / "snapshot", env=env, cwd=job).returncode == 0
    for diff in (tmp_path / "snapshot").glob("*.diff"):
        diff.unlink()
    side = from_snapshot(tmp_path / "snapshot", "snapshot")
    assert re.fullmatch("[0-9a-f]{40}", side.known["source"]["reprobuild"]["tree"])
    assert side.known["interpreter"]["python"]["version"] == ".".join(map(str, sys.version_info[:3]))
    assert {"kernel", "processor", "limit nofile", "memory", "libc"} <= side.known["machine"].keys()
    assert side.known["python"]["msgspec"]["version"]
    assert side.known["release"]["system"]["distribution"]
    assert side.doubled == {}
