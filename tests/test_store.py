"""Files by their hash: damage is found and removed, nothing is half-written, processes share a directory."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from reprobuild.errors import FetchError
from reprobuild.store.keyring import StoreKeyring
from reprobuild.store.store import Store
from reprobuild_portable.hashing import hash_file

CONTENT = b"some content" * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def test_what_is_added_is_there_read_only_and_by_its_hash(store: Store) -> None:
    assert not store.has(SHA256)
    assert store.add(CONTENT) == SHA256
    assert store.has(SHA256)
    assert store.blob(SHA256) == store.root / "blobs" / SHA256[:2] / SHA256
    assert store.verified(SHA256, "it").read_bytes() == CONTENT
    assert store.blob(SHA256).stat().st_mode & 0o777 == 0o444
    assert list((store.root / "tmp").iterdir()) == []
    assert store.add(CONTENT) == SHA256


def test_a_file_is_moved_in(store: Store) -> None:
    with store.scratch() as folder:
        path = folder / "file"
        path.write_bytes(CONTENT)
        assert hash_file(path) == SHA256
        assert store.adopt(path) == SHA256
        assert not path.exists()
    assert store.blob(SHA256).read_bytes() == CONTENT


def test_a_scratch_folder_goes_away_whatever_happens(store: Store) -> None:
    folders: list[Path] = []

    def fail() -> None:
        with store.scratch() as folder:
            folders.append(folder)
            (folder / "deep").mkdir()
            (folder / "deep" / "file").write_bytes(b"x")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not folders[0].exists()


def test_what_is_not_there_is_named(store: Store) -> None:
    with pytest.raises(FetchError, match=rf"the wheel of torch is not in the store {store.root}") as caught:
        store.verified(SHA256, "the wheel of torch")
    assert (
        caught.value.hint
        == "run `reprobuild fetch LOCK`, with a network; or name the store that has it: --store DIR"
    )


def test_a_damaged_blob_is_named_and_removed(store: Store) -> None:
    store.add(CONTENT)
    blob = store.blob(SHA256)
    blob.chmod(0o644)
    blob.write_bytes(CONTENT + b"!")
    found = hashlib.sha256(CONTENT + b"!").hexdigest()
    again = Store(store.root)
    with pytest.raises(
        FetchError, match=rf"torch in the store is damaged: sha256 {found}, locked as {SHA256}"
    ) as err:
        again.verified(SHA256, "torch")
    assert err.value.hint == "the damaged copy was removed; run the command again to fetch it anew"
    assert not again.has(SHA256)
    again.add(CONTENT)
    assert again.verified(SHA256, "torch").read_bytes() == CONTENT


@pytest.mark.parametrize("size", [256 << 20, 4 << 40])
def test_a_hole_is_damaged_and_not_read(size: int, store: Store) -> None:
    """A store of another party may hold files of terabytes that take no room, or many smaller ones."""
    store.add(CONTENT)
    blob = store.blob(SHA256)
    blob.chmod(0o644)
    os.truncate(blob, size)
    again = Store(store.root)
    with pytest.raises(
        FetchError, match=rf"torch in the store is damaged: sha256 of a hole, locked as {SHA256}"
    ):
        again.verified(SHA256, "torch")
    assert not again.has(SHA256)


def test_a_lock_that_is_a_pipe_is_refused(store: Store) -> None:
    """To open it would wait for a writer without an end; the hint is followed."""
    store.add(CONTENT)
    lock = store.root / "in-use"
    lock.unlink()
    os.mkfifo(lock)
    with pytest.raises(FetchError, match=rf"{lock} in the store is no plain file") as err:
        Store(store.root).verified(SHA256, "torch")
    assert err.value.hint == "remove it, or choose another directory with `--store`"
    lock.unlink()
    assert Store(store.root).verified(SHA256, "torch").read_bytes() == CONTENT


def test_memory(store: Store) -> None:
    assert store.recall("ab" * 32) is None
    store.remember("ab" * 32, {"b": [1, None], "a": "ü"})
    assert Store(store.root).recall("ab" * 32) == {"a": "ü", "b": [1, None]}
    store.remember("ab" * 32, 2)
    assert store.recall("ab" * 32) == 2
    assert [path.name for path in (store.root / "made").iterdir()] == ["ab" * 32]


def test_a_damaged_memory_is_no_memory(store: Store) -> None:
    store.remember("k", {"a": 1})
    (store.root / "made" / "k").write_bytes(b'{"a": ')
    assert store.recall("k") is None


def test_what_another_wrote_is_not_remembered(store: Store, tmp_path: Path) -> None:
    other = Store(tmp_path / "other")
    for one in (store, other):
        one.remember("k", {"blob": "honest"})
        one.remember("other", 1)
    kept = store.root / "made" / "k"
    honest = kept.read_bytes()
    assert store.recall("k") == {"blob": "honest"}
    for forged in (
        honest.replace(b"honest", b"forged"),  # changed
        b'{"blob": "forged"}',  # of an earlier version, or not signed
        (other.root / "made" / "k").read_bytes(),  # with another key
        (store.root / "made" / "other").read_bytes(),  # of another name
        b"",
        b"\xff" * 70,
    ):
        kept.write_bytes(forged)
        assert store.recall("k") is None
        assert Store(store.root).recall("k") is None
    kept.write_bytes(honest)
    assert Store(store.root).recall("k") == {"blob": "honest"}


@pytest.mark.parametrize("change", ["opened", "foreign", "link", "short", "group"])
def test_a_key_that_others_may_know_is_not_believed(store: Store, change: str, tmp_path: Path) -> None:
    store.remember("k", 1)
    key = store.root / "key"
    assert key.stat().st_mode & 0o777 == 0o600
    if change == "opened":
        key.chmod(0o604)
    elif change == "group":
        key.chmod(0o660)
    elif change == "foreign":
        os.chown(key, 12345, 12345)
    elif change == "short":
        key.chmod(0o600)
        key.write_bytes(b"short")
    else:
        key.rename(tmp_path / "elsewhere")
        key.symlink_to(tmp_path / "elsewhere")
    again = Store(store.root)
    assert again.recall("k") is None
    again.remember("k", 2)
    assert Store(store.root).recall("k") == 2  # with a key of its own
    assert [path.name for path in store.root.iterdir() if path.name.startswith("key")] == ["key"]


def test_a_new_store_is_private(store: Store) -> None:
    before = os.umask(0o022)
    try:
        store.add(CONTENT)
    finally:
        os.umask(before)
    assert store.root.stat().st_mode & 0o777 == 0o700


def test_two_processes_write_at_once(store: Store) -> None:
    program = (
        "import sys; from pathlib import Path; from reprobuild.store.store import Store; s = Store(Path(sys.argv[1]))\n"
        "for n in range(150):\n"
        "    s.add(bytes([n]) * 5000); s.remember('key', [n] * 2000); assert len(s.recall('key')) == 2000\n"
    )
    both = [
        subprocess.Popen([sys.executable, "-c", program, str(store.root)], stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for process in both:
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
    blobs = [path for path in (store.root / "blobs").rglob("*") if path.is_file()]
    assert len(blobs) == 150
    for path in blobs:
        assert hash_file(path) == path.name
    assert Store(store.root).recall("key") == [149] * 2000
    assert list((store.root / "tmp").iterdir()) == []


@pytest.mark.parametrize("name", ["blobs", "made", "tmp", "partial", "apt", "roots", "making", "blobs/2c"])
def test_a_link_in_a_store_leads_nothing_elsewhere(tmp_path: Path, name: str) -> None:
    """A store that is handed over may have links in the place of its directories."""
    outside = tmp_path / "outside"
    outside.mkdir()
    root = tmp_path / "store"
    (root / name).parent.mkdir(parents=True)
    (root / name).symlink_to(outside)
    for use in (Store.make, lambda store: store.add(CONTENT), lambda store: store.remember("0" * 64, 1)):
        with pytest.raises(FetchError, match=f"{name} in the store is a link") as err:
            use(Store(root))
        assert err.value.hint == (
            "remove the link, or choose another directory with `--store`; the whole store may stand behind a link"
        )
    assert list(outside.iterdir()) == []
    (root / name).unlink()
    assert Store(root).add(CONTENT) == SHA256


def test_the_whole_store_may_stand_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "store").symlink_to("disk")
    assert Store(tmp_path / "store").add(CONTENT) == SHA256


def own_files(root: Path, known: StoreKeyring) -> list[str]:
    """Return what stands in the user's own directory of a store; a file is left there."""
    with Store(root, known).private_directory("apt", "lists") as folder:
        held = sorted(path.name for path in folder.iterdir())
        (folder / "list").write_text("what the user fetched")
    return held


def test_files_of_the_user_stay_in_a_store_of_his_own_alone(tmp_path: Path) -> None:
    known, root = StoreKeyring(tmp_path / "keys"), tmp_path / "store"
    assert own_files(root, known) == []
    assert own_files(root, known) == ["list"]
    shutil.copytree(root, tmp_path / "copy")
    other = StoreKeyring(tmp_path / "other")
    assert own_files(tmp_path / "copy", other) == []  # with the key of another
    assert own_files(tmp_path / "copy", other) == ["list"]
    assert own_files(root, StoreKeyring(None)) == []
    root.chmod(0o770)
    assert own_files(root, known) == []


def test_a_concealed_secret_is_known_to_its_store_alone(tmp_path: Path) -> None:
    known = StoreKeyring(tmp_path / "keys")
    first, other = Store(tmp_path / "a", known), Store(tmp_path / "b", known)
    assert first.conceal("hunter2") == Store(tmp_path / "a", known).conceal("hunter2")
    assert first.conceal("hunter2") not in (first.conceal("hunter3"), other.conceal("hunter2"))
    untrusted = Store(tmp_path / "a", StoreKeyring(None))
    assert untrusted.conceal("hunter2") != untrusted.conceal("hunter2")
