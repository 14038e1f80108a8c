"""`store check` finds every damage, and takes nothing that may be whole."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reprobuild.errors import FetchError, UsageError
from reprobuild.lock.file import write_lock
from reprobuild.lock.system import Artefact
from reprobuild.store.blob_hash import hash_open
from reprobuild.store.check import check
from reprobuild.store.gc import collect
from reprobuild.store.roots import record_lock
from reprobuild.store.store import Store
from reprobuild_portable.hashing import hash_file
from tests.conftest import ROOT, reprobuild
from tests.image.made import Made
from tests.store.sealing import contents, sealed


def test_check_names_what_is_damaged_and_the_next_fetch_brings_it(made: Made, tmp_path: Path) -> None:
    store = made.store
    served = tmp_path / "served.whl"
    served.write_bytes(b"a wheel" * 1000)
    lock = sealed(made, "one")
    wheel = type(lock.wheels[0])(
        name="two", version="1", role="environment",
        file=Artefact(
            filename="two-1-py3-none-any.whl", sha256=store.add(served.read_bytes()), size=7000, url=served.as_uri()
        ),
    )  # fmt: skip
    lock = made.lock(wheels=(*lock.wheels, wheel), realised=lock.realised)
    path = tmp_path / "x.lock"
    write_lock(lock, path)
    record_lock(lock, path, store)
    here, there, nobody = lock.wheels[0].file.sha256, wheel.file.sha256, store.add(b"nobody's")
    assert check(store).damaged == ()
    for sha256 in (here, there, nobody):
        blob = store.blob(sha256)
        content = bytearray(blob.read_bytes())
        content[len(content) // 2] ^= 1
        blob.chmod(0o644)
        blob.write_bytes(content)
    damaged_size = store.blob(here).stat().st_size
    (store.root / "blobs" / "zz").mkdir()
    (store.root / "blobs" / "zz" / "link").symlink_to("/etc/passwd")
    done = reprobuild("store", "check", "--store", store.root, "--json")
    assert done.returncode == FetchError.exit_code == 5
    found = {item["sha256"]: item for item in json.loads(done.stdout)["damaged"]}
    assert found.keys() == {here, there, nobody, "link"}
    assert found[here]["names"] == [f"one-1.0-py3-none-any.whl of {path}"]
    assert found[here]["aside"] == str(store.root / "damaged" / here)
    assert Path(found[here]["aside"]).stat().st_size == damaged_size
    assert (found[there]["names"], found[there]["aside"]) == ([f"two-1-py3-none-any.whl of {path}"], "")
    assert found[nobody]["names"] == []
    assert not any(Store(store.root).has(sha256) for sha256 in (here, there, nobody))
    store.add((made.root / "one-1.0-py3-none-any.whl").read_bytes())
    fetched = reprobuild("fetch", path, "--store", store.root)
    assert fetched.returncode == 0, fetched.stderr
    assert hash_file(store.blob(there)) == there
    whole = reprobuild("store", "check", "--store", store.root)
    assert whole.returncode == 0, whole.stderr
    files = len(contents(store, "blobs"))
    assert whole.stdout.startswith(f"{files} of {files} files (")


# A disk that fails once cannot be had: what the reading of one file raises is put in its place.
FAILING = """
import errno, sys
from reprobuild.store import check
from reprobuild.cli.main import main
real, lost = check.hash_open, sys.argv.pop(1)
def read(path):
    if path.name == lost:
        raise OSError(errno.EIO, "Input/output error", str(path))
    return real(path)
check.hash_open = read
main()
"""


def test_what_cannot_be_read_now_stays(made: Made) -> None:
    lost = made.store.add(b"whole" * 100)
    argv = [sys.executable, "-c", FAILING, lost, "store", "check", "--store", str(made.store.root)]
    done = subprocess.run([*argv, "--json"], cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == FetchError.exit_code, done.stderr
    found = json.loads(done.stdout)
    assert found["unreadable"] == [{"path": str(made.store.blob(lost)), "reason": os.strerror(errno.EIO)}]
    assert found["damaged"] == []
    told = subprocess.run(argv, cwd=ROOT, check=False, capture_output=True, text=True)
    assert told.returncode == FetchError.exit_code
    assert f"not checked: {made.store.blob(lost)} cannot be read (Input/output error)" in told.stdout
    assert hash_file(made.store.blob(lost)) == lost


def test_a_folder_that_is_no_store_is_neither_checked_nor_cleaned(made: Made, tmp_path: Path) -> None:
    write_lock(sealed(made, "one"), tmp_path / "x.lock")
    work = tmp_path / "var" / "tmp" / "mine" / "thesis.tex"
    work.parent.mkdir(parents=True)
    work.write_text("x")
    for root in (tmp_path / "nothing", tmp_path / "var"):
        for verb in (("check",), ("gc", tmp_path / "x.lock")):
            done = reprobuild("store", *verb, "--store", root)
            assert done.returncode == UsageError.exit_code, done.stderr
            assert f"there is no store at {root}" in done.stderr
            assert "name another one with `--store`" in done.stderr
    (tmp_path / "var" / "blobs").mkdir()
    (tmp_path / "var" / "partial").mkdir()
    (tmp_path / "var" / "partial" / "of-others").write_text("x")
    collect(Store(tmp_path / "var"), [tmp_path / "x.lock"])
    assert work.exists()
    assert (tmp_path / "var" / "partial" / "of-others").exists()


def test_a_good_file_that_took_the_place_of_a_damaged_one_stays(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process brings it while the damaged one is hashed."""
    sha256 = made.store.add(b"good")
    blob = made.store.blob(sha256)

    def hash_slowly(path: Path) -> tuple[str, os.stat_result]:
        found = hash_open(path)
        if path == blob and found[0] != sha256:
            (tmp_path / "new").write_bytes(b"good")
            (tmp_path / "new").replace(blob)
        return found

    for module in ("reprobuild.store.store", "reprobuild.store.check"):
        monkeypatch.setattr(f"{module}.hash_open", hash_slowly)
    for use in (lambda: Store(made.store.root).verified(sha256, "x"), lambda: check(made.store)):
        (tmp_path / "bad").write_bytes(b"bad")
        (tmp_path / "bad").replace(blob)
        use()
        assert blob.read_bytes() == b"good"
    assert check(made.store).damaged == ()


def test_both_work_beside_a_process_at_work(made: Made, tmp_path: Path) -> None:
    write_lock(sealed(made, "one"), tmp_path / "x.lock")
    ended = threading.Event()

    def work() -> None:
        store = Store(made.store.root)
        while not ended.is_set():
            with store.scratch() as folder:
                for n in range(20):
                    (folder / str(n)).write_bytes(b"x")
                store.blob(store.adopt(folder / "0")).unlink()

    with ThreadPoolExecutor(1) as pool:
        worker = pool.submit(work)
        try:
            for _ in range(100):
                assert collect(Store(made.store.root), [tmp_path / "x.lock"], dry_run=True).kept.files > 0
                assert check(Store(made.store.root)).damaged == ()
        finally:
            ended.set()
        worker.result()


@pytest.mark.parametrize("name", ["damaged", "kept", "blobs"])
def test_a_link_in_a_store_leads_no_check_elsewhere(tmp_path: Path, name: str) -> None:
    """A damaged file would be moved into the directory of another program."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / ("a" * 64)).write_text("mine")
    store = Store(tmp_path / "store")
    blob = store.root / "blobs" / "aa" / ("a" * 64)
    store.add(b"1\n")
    blob.parent.mkdir()
    blob.write_text("theirs")
    if (store.root / name).exists():
        shutil.rmtree(store.root / name)
    (store.root / name).symlink_to(outside)
    with pytest.raises(FetchError, match=f"{name} in the store is a link"):
        check(Store(store.root))
    assert [(path.name, path.read_text()) for path in outside.iterdir()] == [("a" * 64, "mine")]


def test_a_hole_without_end_is_damaged_at_once(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    store.add(b"1\n")
    blob = store.root / "blobs" / "aa" / ("a" * 64)
    blob.parent.mkdir()
    with blob.open("wb") as file:
        file.truncate(4 << 40)
    assert [each.sha256 for each in check(store).damaged] == ["a" * 64]
