"""Kills at random moments, and disks without room: nothing is corrupt, and the next run completes."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprobuild.errors import DistributionError
from reprobuild.store.store import Store
from reprobuild_portable.hashing import hash_file
from tests.conftest import ROOT, reprobuild
from tests.distribute.conftest import Results, make_results
from tests.distribute.test_bundle import ALONE, alone, check_bundle, contents, take

KILLS = 30
SIZE = 1_500_000  # of the wheel; a run takes some tenths of a second


class Server:
    """Starts children of `tests.distribute.killed`, and kills them."""

    def __init__(self, verb: str, one: Path, two: Path, store: Path) -> None:
        argv = [sys.executable, "-m", "tests.distribute.killed", verb, *map(str, (one, two, store))]
        self._process = subprocess.Popen(
            argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._usual = 60.0  # seconds, until one has run

    def run(self, part: float | None = None) -> int:
        """Run one to its end, or kill it after a part of the time that one takes; return its exit code."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        child, began = int(self._process.stdout.readline()), time.monotonic()
        if part is not None:
            time.sleep(part * self._usual)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        code = int(self._process.stdout.readline())
        if code == 0:
            self._usual = min(self._usual, time.monotonic() - began)
        return code

    def close(self) -> None:
        """End."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return make_results(tmp_path_factory.mktemp("large"), SIZE)


@contextlib.contextmanager
def served(verb: str, one: Path, two: Path, store: Path) -> Iterator[Server]:
    server = Server(verb, one, two, store)
    try:
        yield server
    finally:
        server.close()


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


def test_bundle_is_killed_thirty_times(large: Results, tmp_path: Path) -> None:
    """After each kill the parts of the bundle before stand there as they were, or those of the new one."""
    place, chance, killed = tmp_path / "to" / "b.tar", random.Random(1), 0
    wanted = large.bundle(tmp_path / "wanted" / "b.tar", split=1 << 20)
    parts = {Path(name).name: Path(name).read_bytes() for name in wanted.files}
    assert len(parts) > 3
    place.parent.mkdir()
    with served("bundle", large.out, place, large.store.root) as server:
        assert server.run() == 0
        for number in range(4 * KILLS):
            if killed == KILLS:
                break
            if number % 3 == 0:  # nothing of a former run is there
                for path in place.parent.glob("b.tar.*"):
                    path.unlink()
            code = server.run(chance.random())
            assert code in (0, -signal.SIGKILL)
            killed += code != 0
            for path in place.parent.glob("b.tar*"):
                assert path.read_bytes() == parts[path.name]
        assert killed == KILLS
        assert server.run() == 0
    assert {path.name: path.read_bytes() for path in place.parent.glob("b.tar*")} == parts
    assert leftovers(place.parent) == []
    assert check_bundle(place) == wanted.members


def test_unbundle_is_killed_thirty_times(large: Results, tmp_path: Path) -> None:
    """After each kill there is no directory, or the whole one; the store holds nothing wrong; the next run goes on."""
    chance, killed, whole = random.Random(2), 0, 0
    large.bundle(tmp_path / "b.tar")
    take(tmp_path / "b.tar", tmp_path / "wanted", tmp_path / "wanted-store")
    wanted = contents(tmp_path / "wanted")
    out, store = tmp_path / "to" / "out", tmp_path / "store"
    with served("unbundle", tmp_path / "b.tar", out, store) as server:
        assert server.run() == 0
        for _ in range(4 * KILLS):
            if killed == KILLS:
                break
            if out.exists():
                assert contents(out) == wanted
                whole += 1
                subprocess.run(["rm", "-rf", out, store], check=True)
            code = server.run(chance.random())
            assert code in (0, -signal.SIGKILL)
            killed += code != 0
            for blob in (store / "blobs").glob("*/*"):
                assert hash_file(blob) == blob.name
        assert killed == KILLS
        assert server.run() == 0
    assert contents(out) == wanted
    assert leftovers(out.parent) == []
    assert {path.name for path in (store / "blobs").glob("*/*")} == {
        path.name for path in (tmp_path / "wanted-store" / "blobs").glob("*/*")
    }
    assert whole >= 1


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A disk of two megabytes: less than a bundle has."""
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,nr_inodes=400", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_without_room(large: Results, full: Path, tmp_path: Path) -> None:
    """What is told, and that the run after room was made completes; both programs."""
    done = reprobuild(
        "bundle", large.out, "-o", full / "b.tar", "--include", "wheels,debs", "--store", large.store.root
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "No space left on device" in done.stderr
    assert "hint: make room there" in done.stderr
    assert list(full.iterdir()) == []
    large.bundle(tmp_path / "b.tar")
    with pytest.raises(DistributionError, match=r"bytes are to be unpacked, and \d+ are free in ") as caught:
        take(tmp_path / "b.tar", full / "out", tmp_path / "store")
    assert (
        caught.value.hint == "make room, or name another directory with -o; what is unpacked already is kept"
    )
    assert alone(tmp_path / "b.tar", "-o", full / "out").returncode == 11
    assert not (full / "out").exists()
    subprocess.run(["mount", "-o", "remount,size=64m", str(full)], check=True)
    assert take(tmp_path / "b.tar", full / "out", tmp_path / "store").new
    assert leftovers(full) == []


def test_a_disk_that_fills_while_it_is_written(large: Results, full: Path, tmp_path: Path) -> None:
    """The room was there when it was asked for; of names there was none. What was whole is gone on with."""
    large.bundle(tmp_path / "b.tar")
    subprocess.run(["mount", "-o", "remount,size=64m,nr_inodes=20", str(full)], check=True)
    with pytest.raises(DistributionError, match="No space left on device") as caught:
        take(tmp_path / "b.tar", full / "out", tmp_path / "store")
    assert caught.value.hint.startswith("mend that, and run it again: it goes on with what stands in ")
    said = subprocess.run(
        [sys.executable, ALONE, tmp_path / "b.tar", "-o", full / "out"], capture_output=True, check=False
    )
    assert said.returncode == 11
    assert b"No space left on device" in said.stderr
    assert not (full / "out").exists()
    kept = {path.stat().st_ino for path in full.rglob("*") if path.is_file()}
    subprocess.run(["mount", "-o", "remount,nr_inodes=400", str(full)], check=True)
    assert take(tmp_path / "b.tar", full / "out", tmp_path / "store").new
    assert kept & {path.stat().st_ino for path in full.rglob("*") if path.is_file()}


def test_the_store_has_no_room(large: Results, full: Path, tmp_path: Path) -> None:
    """The output directory is only there when its inputs are in the store."""
    large.bundle(tmp_path / "b.tar")
    with pytest.raises(DistributionError, match="No space left on device"):
        take(tmp_path / "b.tar", tmp_path / "out", full / "store")
    assert not (tmp_path / "out").exists()
    assert all(hash_file(path) == path.name for path in (full / "store" / "blobs").glob("*/*"))
    subprocess.run(["mount", "-o", "remount,size=64m", str(full)], check=True)
    assert take(tmp_path / "b.tar", tmp_path / "out", full / "store").new
    assert len(list((full / "store" / "blobs").glob("*/*"))) == 4
    assert Store(full / "store").has(next((full / "store" / "blobs").glob("*/*")).name)
