"""The death of each file in every way: the failure says what was expected, and nothing wrong is ever accepted."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import pytest

from reprobuild.errors import FetchError
from reprobuild.infra.flock import machine_name
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.retry import RetryPolicy
from reprobuild.lock.system import Artefact
from reprobuild.store.fetch import fetch
from reprobuild.store.store import Store
from reprobuild_portable.hashing import hash_file
from tests.dying import FAULTS, PAGE, Dying, Fault, Weather

CONTENTS = {
    "pool/libc6_2.36-9_amd64.deb": random.Random(1).randbytes(300_000),
    "pool/bash_5.2.15-2_amd64.deb": random.Random(2).randbytes(1000),
    "simple/click-8.1.7-py3-none-any.whl": random.Random(3).randbytes(600_000),
    "snapshot/Packages.xz": random.Random(4).randbytes(5000),
}
# Only a server that is silent is to be given up soon: on a busy machine the others are slow, too.
PATIENT = Net(manners=RetryPolicy(read=20, tries=3, pause=0.01))
IMPATIENT = Net(manners=RetryPolicy(read=0.3, tries=3, pause=0.01))
# What the failure says beside the file, its hash and its size.
SAYS: dict[Fault, str] = {
    "deleted": "does not exist (HTTP 404)",
    "replaced": "is not the file that was locked: sha256 ",
    "truncated": "broke off after",
    "short": "are expected",
    "silent": "timed out",
    "login": f"has {len(PAGE)} bytes, and",
    "elsewhere": "are expected",
    "loop": "redirects in a loop",
    "reset": "broke off after",
    "busy": "answered HTTP 503",
    "endless": "gives more than",
    "refused": "refuses access (HTTP 403)",
}


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("NETRC", "/nonexistent/netrc")


def locked(server: Dying) -> dict[str, Artefact]:
    return {
        path: Artefact(
            filename=path.rpartition("/")[2], sha256=hashlib.sha256(content).hexdigest(), size=len(content),
            url=server.address(path),
        )
        for path, content in CONTENTS.items()
    }  # fmt: skip


def all_right(store: Store) -> bool:
    """Tell whether every blob is what its name says."""
    return all(hash_file(path) == path.name for path in (store.root / "blobs").glob("*/*"))


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("path", CONTENTS)
@pytest.mark.parametrize("begun", [False, True], ids=["empty", "begun"])
def test_a_dead_file(path: str, fault: Fault, begun: bool, tmp_path: Path) -> None:
    """With an empty store, and with one in which half of the file is; then it comes back."""
    store = Store(tmp_path / "store")
    with Dying(CONTENTS) as server:
        items = locked(server)
        item = items[path]
        if begun:
            part = store.root / "partial" / f"{item.sha256}.{machine_name()}"
            part.parent.mkdir(parents=True)
            part.write_bytes(CONTENTS[path][: item.size // 3])
        server.faults[path] = fault
        with pytest.raises(FetchError) as caught:
            fetch(items.values(), store, IMPATIENT if fault == "silent" else PATIENT)
        said = str(caught.value)
        assert SAYS[fault] in said
        for expected in (item.filename, item.sha256, f"{item.size} bytes", item.url):
            assert expected in said
        assert caught.value.hint
        assert not store.has(item.sha256)
        assert all_right(store)
        del server.faults[path]
        fetch(items.values(), store, PATIENT)
        assert {path: store.blob(i.sha256).read_bytes() for path, i in items.items()} == CONTENTS
        asked = len(server.asked)
        server.everything = fault
        assert fetch(items.values(), Store(store.root), PATIENT) == 0
        assert fetch(items.values(), Store(store.root), Net(offline=True)) == 0
        assert len(server.asked) == asked


@pytest.mark.parametrize("fault", ["login", "elsewhere", "short", "endless"])
def test_a_dead_file_of_unknown_size(fault: Fault, tmp_path: Path) -> None:
    """Not every index says how large a file is."""
    store = Store(tmp_path / "store")
    net = Net(manners=RetryPolicy(tries=1, file=2_000_000))
    with Dying(CONTENTS) as server:
        items = [
            Artefact(filename=i.filename, sha256=i.sha256, size=0, url=i.url) for i in locked(server).values()
        ]
        path, item = next(iter(CONTENTS)), items[0]
        server.faults[path] = fault
        with pytest.raises(
            FetchError, match=r"is not the file that was locked|gives more than 2000000 bytes"
        ):
            fetch(items, store, net)
        assert all_right(store)
        assert not store.has(item.sha256)


def test_bad_weather_delays_and_harms_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    patient = Net(manners=RetryPolicy(read=5, tries=60, pause=0.005, longest=0.05))
    with Dying(CONTENTS) as server:
        server.weather = Weather(seed=5, chance=0.8)
        assert fetch(locked(server).values(), store, patient) == len(CONTENTS)
        assert len(server.asked) > len(CONTENTS)
    assert all_right(store)


def test_every_fault_is_one() -> None:
    assert SAYS.keys() == set(FAULTS)
