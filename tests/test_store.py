"""Files by their hash: damage is found and removed, nothing is half-written, processes share a folder."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from reprobuild.errors import FetchError
from reprobuild.store import Store, hash_file

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
    assert caught.value.hint == "run `reprobuild fetch LOCK`, with a network"


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


def test_two_processes_write_at_once(store: Store) -> None:
    program = (
        "import sys; from pathlib import Path; from reprobuild.store import Store; s = Store(Path(sys.argv[1]))\n"
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
    assert json.loads((store.root / "made" / "key").read_text()) == [149] * 2000
    assert list((store.root / "tmp").iterdir()) == []
