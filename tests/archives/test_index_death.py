"""The death of a signed index in every way: nothing wrong is accepted, and what is in the store is enough."""

from __future__ import annotations

import hashlib
import lzma
from email.utils import formatdate
from pathlib import Path

import pytest
from pysequoia import SignatureMode, Tsk, sign

from reprobuild.ecosystems.apt.archives import AptArchive
from reprobuild.ecosystems.apt.signatures import AptKeyring
from reprobuild.ecosystems.apt.snapshot_archive import ArchiveIndexes
from reprobuild.errors import FetchError
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.retry import RetryPolicy
from reprobuild.store.store import Store
from reprobuild_portable.hashing import hash_file
from tests.dying import FAULTS, Dying, Fault

KEY = Tsk.generate("archive <archive@archive.test>")
TIME = 1_700_000_000
PLAIN = b"Package: tool\nVersion: 1\nArchitecture: amd64\n" * 5000
PACKED = lzma.compress(PLAIN)
SUITE = "a/20231114T221320Z/dists/made"
SIGNED, PACKAGES = f"{SUITE}/InRelease", f"{SUITE}/main/binary-amd64/Packages.xz"


def signed() -> bytes:
    rows = ((PLAIN, ""), (PACKED, ".xz"))
    listed = "".join(
        f" {hashlib.sha256(content).hexdigest()} {len(content)} main/binary-amd64/Packages{end}\n"
        for content, end in rows
    )
    text = f"Suite: made\nDate: {formatdate(TIME - 3600, usegmt=True)}\nSHA256:\n{listed}"
    return sign(KEY.signer(), text.encode(), mode=SignatureMode.CLEAR)


def read(server: Dying, store: Store, folder: Path) -> bytes:
    """Return the one index of the archive at that time."""
    folder.mkdir(exist_ok=True)
    (folder / "key.asc").write_text(str(KEY.extract_certificate()))
    ring = AptKeyring([KEY.extract_certificate().fingerprint], [folder])
    net = Net(manners=RetryPolicy(read=0.3, tries=3, pause=0.01, page=1_000_000))
    indexes = ArchiveIndexes(net, store, lambda _: ring, ("amd64",))
    where = AptArchive(url=f"{server.url}/a/{{time}}/", pockets=("made",), components=("main",))
    (listed,) = indexes.open_at(where, TIME)
    return indexes.read(listed).content


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("path", [SIGNED, PACKAGES])
def test_a_dead_index(path: str, fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    store = Store(tmp_path / "store")
    with Dying({SIGNED: signed(), PACKAGES: PACKED}) as server:
        server.faults[path] = fault
        with pytest.raises(FetchError) as caught:
            read(server, store, tmp_path / "keys")
        told = str(caught.value)
        if path == PACKAGES:
            for expected in (
                server.address(path),
                hashlib.sha256(PACKED).hexdigest(),
                f"{len(PACKED)} bytes",
            ):
                assert expected in told
        else:
            assert server.address(SUITE.partition("/dists")[0]) in told
        assert caught.value.hint
        assert all(hash_file(blob) == blob.name for blob in (store.root / "blobs").glob("*/*"))
        assert not store.has(hashlib.sha256(PACKED).hexdigest())
        del server.faults[path]
        assert read(server, store, tmp_path / "keys") == PLAIN
        asked = len(server.asked)
        server.everything = fault
        assert read(server, Store(store.root), tmp_path / "keys") == PLAIN
        assert len(server.asked) == asked
