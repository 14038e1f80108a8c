"""The faults on a small lock, and that each of their checks can fail. The long run is `make proof`."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path

import pytest

from proof.fault_injection.checks import BrokenError, Checks
from proof.fault_injection.faults import FaultInjection
from tests.conftest import ROOT
from tests.fault_injection.subject import make


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the lock of a small image, and its store."""
    return make(tmp_path_factory.mktemp("subject"))


@pytest.mark.long
def test_kills_full_disks_and_two_at_once(subject: Path, tmp_path: Path) -> None:
    """Few cases of each kind, and of the four kills at least one that came before the end: `make proof` has fifty."""
    evidence = tmp_path / "evidence.json"
    argv = [sys.executable, "-m", "proof.fault_injection", "--lock", subject / "reprobuild.lock"]
    argv += ["--store", subject / "store", "--work", tmp_path / "work", "--evidence", evidence]
    argv += [
        "--stages",
        "fetch,layers",
        "--kills",
        "4",
        "--full-disks",
        "2",
        "--pairs",
        "2",
        "--read-only",
        "2",
    ]
    done = subprocess.run([*map(str, argv)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(evidence.read_text())
    assert told["cases"] == {
        "kill fetch": 2, "kill layers": 2, "full fetch": 1, "full layers": 1, "pair fetch": 1, "pair layers": 1,
        "read-only fetch": 1, "read-only layers": 1,
    }  # fmt: skip
    assert told["broken"] == 0
    assert told["killed in time"] >= 1
    assert told["disks that were full"] == 2
    assert str(tmp_path) not in evidence.read_text()
    again = subprocess.run([*map(str, argv)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert '"kind"' not in again.stderr  # every case was done before


@pytest.fixture
def experiment(subject: Path, tmp_path: Path) -> FaultInjection:
    """A experiment whose undisturbed run was done."""
    given = argparse.Namespace(
        lock=subject / "reprobuild.lock", store=subject / "store", work=tmp_path / "work", seed=1, stages="layers",
        kills=0, full_disks=0, pairs=0, read_only=0, shard="1/1", without=[], evidence=None,
    )  # fmt: skip
    found = FaultInjection(given)
    found.prepare()
    return found


def test_a_file_of_the_same_inode_size_and_time_is_hashed_anew(tmp_path: Path) -> None:
    """The kernel gives an inode again, and the files of a build context have the lock's time."""
    checks, path = Checks(tmp_path), tmp_path / "file"
    path.write_bytes(b"one")
    os.utime(path, (1, 1))
    before = checks.hash(path)
    time.sleep(0.05)  # more than a tick of the kernel's clock, which counts changes of an inode
    path.write_bytes(b"two")
    os.utime(path, (1, 1))
    assert before != checks.hash(path) == sha256(b"two").hexdigest()


def test_every_check_can_fail(experiment: FaultInjection, tmp_path: Path) -> None:
    store, out = experiment.fresh("layers", "control"), tmp_path / "out"
    experiment.again("layers", store, out)
    (store / "tmp" / "left").mkdir()
    with pytest.raises(BrokenError, match="left behind"):
        experiment.no_leftovers(store, out)
    (store / "made" / "x").write_text("{")
    with pytest.raises(BrokenError, match="of what was made is damaged"):
        experiment.check_store(store)
    blob = store / "blobs" / "00" / ("0" * 64)
    blob.parent.mkdir(exist_ok=True)
    blob.write_bytes(b"x")
    with pytest.raises(BrokenError, match="in the store is damaged"):
        experiment.check_store(store)
    assert experiment.check_results(out)
    (out / "context" / "Extra").write_text("x")
    with pytest.raises(BrokenError, match="context/Extra differs"):
        experiment.check_whole("layers", store, out)
    with pytest.raises(BrokenError, match="context/ is there in part"):
        experiment.check_results(out)
    (out / "Dockerfile").write_text("FROM")
    with pytest.raises(BrokenError, match="Dockerfile is neither absent nor what it should be"):
        experiment.check_results(out)
    done = subprocess.CompletedProcess([], 70, "", "Traceback")
    with pytest.raises(BrokenError, match="exit code 70"):
        experiment.check_error(done, "No space left on device", "layers")
    with pytest.raises(BrokenError, match="were not fetched"):
        experiment.check_whole("layers", tmp_path, out)
