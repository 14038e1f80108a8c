"""A lock that was made, fetched, built or named is kept as long as something is there."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

import pytest

from reprobuild.errors import FetchError, LockError, UsageError
from reprobuild.lock import file as lock_file
from reprobuild.lock.file import write_lock
from reprobuild.report.store import render_gc_result
from reprobuild.store import roots
from reprobuild.store.entries import UnreadFile
from reprobuild.store.gc import collect
from reprobuild.store.roots import gc_root, read_records, record_lock, recorded_lock_path
from reprobuild.store.store import Store
from tests.conftest import reprobuild
from tests.image.made import Made
from tests.store.sealing import contents, gc, sealed
from tests.system.samples import ORDINARY_USER


def test_a_lock_that_was_only_fetched_is_kept(made: Made, tmp_path: Path) -> None:
    lock = sealed(made, "one")
    write_lock(lock, tmp_path / "given.lock")
    stray = made.store.add(b"stray")
    assert reprobuild("fetch", "given.lock", "--store", made.store.root, cwd=tmp_path).returncode == 0
    assert gc(made.store)["locks"] == [str(tmp_path / "given.lock")]
    assert not made.store.has(stray)
    assert all(made.store.has(sha256) for sha256 in (made.base, lock.wheels[0].file.sha256))


def test_a_lock_that_is_named_is_kept_from_then_on(made: Made, tmp_path: Path) -> None:
    lock = sealed(made, "one")
    write_lock(lock, tmp_path / "given.lock")
    found = collect(made.store, [tmp_path / "given.lock"], dry_run=True)
    assert found.locks == (str(tmp_path / "given.lock"),)
    assert read_records(made.store) == []
    collect(made.store, [tmp_path / "given.lock"])
    assert made.store.has(lock.wheels[0].file.sha256)
    stray = made.store.add(b"stray")
    assert collect(made.store).locks == (str(tmp_path / "given.lock"),)
    assert not made.store.has(stray)
    with pytest.raises(LockError, match="there is no lock at"):
        collect(made.store, [tmp_path / "none.lock"])


def test_another_lock_at_the_same_place_counts_instead(made: Made, tmp_path: Path) -> None:
    first, second = sealed(made, "one"), sealed(made, "two")
    path = tmp_path / "x.lock"
    write_lock(first, path)
    record_lock(first, path, made.store, "build")
    write_lock(second, path)
    collect(made.store)
    assert not made.store.has(first.wheels[0].file.sha256)
    assert made.store.has(second.wheels[0].file.sha256)
    path.unlink()
    with pytest.raises(UsageError, match="knows of no lock"):
        collect(made.store)
    os.mkfifo(path)
    with pytest.raises(UsageError, match="knows of no lock"):
        collect(made.store)


def other_version(raw: bytes) -> bytes:
    return json.dumps(json.loads(raw) | {"version": 99}).encode()


# What became of a lock, and what is said of it.
SPOILT: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "another version": (other_version, "is a lock of version 99"),
    "conflict markers": (lambda raw: b"<<<<<<< HEAD\n" + raw, "is not a lock: JSON is malformed"),
    "half of it": (lambda raw: raw[: len(raw) // 2], "is not a lock"),
    "empty": (lambda _: b"", "is not a lock"),
    "{}": (lambda _: b"{}", "is not a lock"),
    "no text": (lambda _: b'{"version": "\xff"}', ""),
    "nested": (lambda _: b'{"version": 1, "base": ' + b"[" * 100_000, ""),
}


@pytest.mark.parametrize("kind", SPOILT)
def test_a_lock_that_is_not_understood_counts_as_it_was(kind: str, made: Made, tmp_path: Path) -> None:
    """A gc beside it must not take its files: what was captured stands at no address."""
    lock, path = sealed(made, "one"), tmp_path / "x.lock"
    write_lock(lock, path)
    record_lock(lock, path, made.store, "build")
    write_lock(sealed(made, "two"), tmp_path / "y.lock")
    before = read_records(made.store)
    spoil, reason = SPOILT[kind]
    path.write_bytes(spoil(path.read_bytes()))
    found = collect(made.store, [tmp_path / "y.lock"])
    assert found.gone == ()
    (unread,) = found.unread
    assert unread.path == str(path)
    assert reason in unread.reason
    assert f"{path} is kept as it was: cannot be read ({unread.reason[:10]}" in render_gc_result(found)
    assert all(made.store.has(sha256) for sha256 in before[0][1].files)
    assert before[0] in read_records(made.store)


def test_a_lock_on_a_disk_that_fails_counts_as_it_was(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> NoReturn:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    lock, path = sealed(made, "one"), tmp_path / "x.lock"
    write_lock(lock, path)
    record_lock(lock, path, made.store)
    monkeypatch.setattr(lock_file, "read_plain", fail)
    found = collect(made.store)
    assert found.unread == (UnreadFile(path=str(path), reason=f"cannot be read: {os.strerror(errno.EIO)}"),)
    assert made.store.has(lock.wheels[0].file.sha256)


@pytest.mark.parametrize("through_link", [True, False])
def test_a_file_of_the_kernel_is_not_read(
    through_link: bool, made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read can wait without end, or take messages from another reader."""
    lock, target = sealed(made, "one"), Path("/proc/self/status")
    path = tmp_path / "x.lock" if through_link else target
    record_lock(lock, path, made.store)
    if through_link:
        path.symlink_to(target)
    read: list[Path] = []
    monkeypatch.setattr(roots, "read_lock", read.append)
    found = collect(made.store)
    assert read == []
    assert found.unread == (UnreadFile(path=str(path), reason="is not a lock: it is empty"),)
    assert made.store.has(lock.wheels[0].file.sha256)


def test_a_lock_that_cannot_be_read_counts_as_it_was(made: Made, tmp_path: Path) -> None:
    lock = sealed(made, "one")
    folder = tmp_path / os.fsdecode(b"not \xff utf-8")
    folder.mkdir()
    write_lock(lock, folder / "x.lock")
    record_lock(lock, folder / "x.lock", made.store)
    assert [recorded_lock_path(record) for _, record in read_records(made.store)] == [folder / "x.lock"]
    (folder / "x.lock").unlink()
    (folder / "x.lock").symlink_to("x.lock")  # a loop
    found = collect(made.store)
    assert found.gone == ()
    assert made.store.has(lock.wheels[0].file.sha256)
    assert [lock.reason for lock in found.unread] == [os.strerror(errno.ELOOP)]
    assert "not \\udcff utf-8/x.lock" in render_gc_result(found)


def test_a_damaged_record_stops_it(made: Made, tmp_path: Path) -> None:
    record_lock(sealed(made, "one"), tmp_path / "x.lock", made.store)
    ((place, _),) = read_records(made.store)
    place.write_text("{")
    with pytest.raises(FetchError, match=f"{place} says which lock is kept, and cannot be read") as caught:
        collect(made.store)
    assert caught.value.hint == "remove it, and name its lock with `reprobuild store gc LOCK`"


def test_a_store_that_cannot_be_written_to_is_used_all_the_same(made: Made, tmp_path: Path) -> None:
    lock = sealed(made, "one")
    write_lock(lock, tmp_path / "x.lock")
    made.store.release()
    before = contents(made.store, ".")
    done = reprobuild("fetch", tmp_path / "x.lock", "--store", made.store.root, prefix=ORDINARY_USER)
    assert done.returncode == 0, done.stderr
    assert contents(made.store, ".") == before
    assert read_records(made.store) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, FetchError])
def test_a_run_that_fails_takes_nothing_from_the_record_of_the_last(
    error: type[BaseException], made: Made, tmp_path: Path
) -> None:
    lock, path = sealed(made, "one"), tmp_path / "x.lock"
    write_lock(lock, path)
    first, second = made.store.add(b"first"), made.store.add(b"second")

    def run(sha256: str, fails: bool) -> None:
        store = Store(made.store.root)
        with gc_root(lock, path, store, "build"):
            store.has(sha256)
            if fails:
                raise error("stopped")

    def used() -> set[str]:
        ((_, record),) = read_records(made.store)
        return set(record.runs["build"].blobs)

    run(first, fails=False)
    with pytest.raises(error, match="stopped"):
        run(second, fails=True)
    assert used() == {first, second}
    run(second, fails=False)
    assert used() == {second}


def test_the_record_of_a_lock_that_a_run_writes_stands(made: Made, tmp_path: Path) -> None:
    """`build OUT/reprobuild.lock -o OUT` seals the lock that it was given."""
    given, path = made.unsealed_lock(), tmp_path / "x.lock"
    lock = sealed(made, "one")
    with gc_root(given, path, made.store, "build"):
        write_lock(lock, path)
        record_lock(lock, path, made.store, "build by native")
    ((_, record),) = read_records(made.store)
    assert (record.digest, list(record.runs)) == (lock.digest, ["build by native"])


def test_many_records_at_once_lose_none(made: Made, tmp_path: Path) -> None:
    lock, path = sealed(made, "one"), tmp_path / "x.lock"
    write_lock(lock, path)
    with ThreadPoolExecutor(8) as pool:
        runs = [pool.submit(record_lock, lock, path, Store(made.store.root), f"run {n}") for n in range(40)]
        for run in runs:
            run.result()
    ((_, record),) = read_records(made.store)
    assert len(record.runs) == 40
