"""Locked wheels and sdists whose server dies: identical from the store, named otherwise, nothing wrong accepted."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from reprobuild.errors import FetchError
from reprobuild.infra.http.client import Net
from reprobuild.lock.file import write_lock
from reprobuild.lock.model import Lock
from reprobuild.lock.python import Sdist
from reprobuild.lock.system import Artefact
from reprobuild.store.caches import Caches
from reprobuild.store.fetch import fetch, list_artefacts
from reprobuild.store.store import Store
from reprobuild_portable.hashing import hash_file
from tests.conftest import reprobuild
from tests.fault_injection.dead import FAULTS, MANNERS, Scene, changed, like, mirrored
from tests.image.made import Made
from tests.resolve.served import Reply, Served

# What each brings: the very bytes, or an error that says this, and a hint that says that.
GONE, PAGE = "it may have been removed", "a web page came in its place: open the address in a browser"
UNREACHED, LOGIN = "check the network and the proxy settings", "put the credentials where pip finds them"
ANOTHER, REST = "another file stands there now", "it goes on where this one stopped"
EXPECTED: dict[str, tuple[str, str] | None] = {
    "404": ("does not exist (HTTP 404)", GONE),
    "410": ("does not exist (HTTP 410)", GONE),
    "401": ("refuses access (HTTP 401)", LOGIN),
    "403": ("refuses access (HTTP 403)", LOGIN),
    "503": ("answered HTTP 503", "try again later"),
    "hangs": ("cannot be reached: ", UNREACHED),
    "cut": ("broke off after ", REST),
    "cut twice": None,
    "announced short": (" bytes, and ", ANOTHER),
    "leads to a mirror": None,
    "leads to a login page": (" bytes, and ", PAGE),
    "a login page": (" bytes, and ", PAGE),
    "leads to a file": ("cannot be reached: ", UNREACHED),
    "leads in a loop": ("redirects in a loop", "the server's set-up is broken, or it wants a login"),
    "another media type": None,
    "claims gzip": None,
    "gzip": (" bytes, and ", "the server packs it on the way"),
    "empty": (" bytes, and ", ANOTHER),
}


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Served, Served]]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Served() as server, Served() as other:
        yield server, other


@pytest.fixture
def lock(served: tuple[Served, Served], tmp_path: Path) -> Lock:
    """A lock of a wheel and an sdist that both stand on the server."""
    made = Made(tmp_path / "made")
    wheel = made.wheel("tool", {"tool.py": bytes(range(256)) * 20})
    archive = hashlib.sha256(b"sdist").digest() * 40
    sdist = Sdist(name="src", version="1.0", file=given(served[0], "src-1.0.tar.gz", archive))
    content = made.store.blob(wheel.file.sha256).read_bytes()
    wheel = msgspec.structs.replace(wheel, file=given(served[0], wheel.file.filename, content))
    return made.unsealed_lock(wheels=(wheel,), sdists=(sdist,))


def given(server: Served, name: str, content: bytes) -> Artefact:
    url = server.give(f"/files/{name}", Reply(content, headers={"Content-Type": "binary/octet-stream"}))
    return Artefact(filename=name, sha256=hashlib.sha256(content).hexdigest(), size=len(content), url=url)


def scene(artefact: Artefact, served: tuple[Served, Served]) -> Scene:
    path = f"/files/{artefact.filename}"
    return Scene(path, served[0].replies[path][0], *served)


def bring(lock: Lock, folder: Path, caches: Caches | None = None, *, offline: bool = False) -> Store:
    store = Store(folder)
    fetch(list_artefacts(lock), store, Net(offline=offline, manners=MANNERS), caches=caches)
    return store


def clean(store: Store) -> bool:
    """Tell whether each blob is what its name says."""
    return all(hash_file(blob) == blob.name for blob in (store.root / "blobs").glob("*/*"))


@pytest.mark.parametrize("which", [0, 1], ids=["wheel", "sdist"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_locked_file_dies(
    lock: Lock, served: tuple[Served, Served], fault: str, which: int, tmp_path: Path
) -> None:
    dead = list_artefacts(lock)[which]
    place = scene(dead, served)
    full = bring(lock, tmp_path / "full")
    served[0].give(place.path, *FAULTS[fault](place))
    asked = len(served[0].asked)
    bring(lock, full.root, offline=True)  # what is in the store is enough
    assert len(served[0].asked) == asked

    empty, expected = tmp_path / "empty", EXPECTED[fault]
    if expected is None:
        found = bring(lock, empty).verified(dead.sha256, dead.filename)
        assert found.read_bytes() == place.well.body
    else:
        with pytest.raises(FetchError) as caught:
            bring(lock, empty)
        said = str(caught.value)
        for text in (dead.filename, f"sha256 {dead.sha256}", f"{dead.size} bytes", dead.url, expected[0]):
            assert text in said
        assert expected[1] in caught.value.hint
        assert not Store(empty).has(dead.sha256)
    assert clean(Store(empty))
    served[0].give(place.path, place.well)  # it lives again: the same store goes on
    assert bring(lock, empty).verified(dead.sha256, "x").read_bytes() == place.well.body


@pytest.mark.parametrize("fault", FAULTS)
def test_a_locked_file_of_unknown_size_dies(
    lock: Lock, served: tuple[Served, Served], fault: str, tmp_path: Path
) -> None:
    """Pages of HTML tell no sizes: the hash alone decides."""
    whole = lock.wheels[0].file
    dead, place = msgspec.structs.replace(whole, size=0), scene(whole, served)
    served[0].give(place.path, *FAULTS[fault](place))
    store = Store(tmp_path / "store")
    if EXPECTED[fault] is None:
        fetch([dead], store, Net(manners=MANNERS))
        assert store.verified(dead.sha256, "x").read_bytes() == place.well.body
    else:
        with pytest.raises(FetchError, match=dead.sha256) as caught:
            fetch([dead], store, Net(manners=MANNERS))
        assert caught.value.hint
        assert not store.has(dead.sha256)
    assert clean(store)


@pytest.mark.parametrize("longer", [b"", b"and more"], ids=["as many", "more"])
@pytest.mark.parametrize("elsewhere", [False, True], ids=["there", "behind a redirection"])
def test_other_bytes_under_the_same_name(
    lock: Lock, served: tuple[Served, Served], longer: bytes, elsewhere: bool, tmp_path: Path
) -> None:
    for dead in list_artefacts(lock):
        place = scene(dead, served)
        other = like(place.well, changed(place.well.body) + longer)
        served[0].give(place.path, *(mirrored(place, other) if elsewhere else [other]))
        with pytest.raises(FetchError) as caught:
            bring(lock, tmp_path / dead.filename)
        assert dead.sha256 in str(caught.value)
        if longer:
            assert f"has {len(other.body)} bytes, and {dead.size} are expected" in str(caught.value)
        else:
            assert f"is not the file that was locked: sha256 {hashlib.sha256(other.body).hexdigest()}" in str(
                caught.value
            )
        assert caught.value.hint
        assert clean(Store(tmp_path / dead.filename))
        served[0].give(place.path, place.well)


def test_a_cache_of_the_user_has_the_very_bytes(
    lock: Lock, served: tuple[Served, Served], tmp_path: Path
) -> None:
    for dead in list_artefacts(lock):
        place = scene(dead, served)
        key = hashlib.sha224(dead.url.encode()).hexdigest()
        kept = tmp_path / "pip" / "http-v2" / "/".join(key[:5]) / f"{key}.body"
        kept.parent.mkdir(parents=True)
        kept.write_bytes(place.well.body)
        served[0].give(place.path, Reply(status=410))
    store = bring(lock, tmp_path / "store", Caches(pip=(tmp_path / "pip",)))
    assert all(store.verified(one.sha256, one.filename) for one in list_artefacts(lock))
    assert served[0].asked == []
    for body in (tmp_path / "pip").rglob("*.body"):
        body.write_bytes(changed(body.read_bytes()))
    with pytest.raises(FetchError, match="HTTP 410"):
        bring(lock, tmp_path / "other", Caches(pip=(tmp_path / "pip",)))


def test_the_verb_says_it_with_its_own_exit_code(
    lock: Lock, served: tuple[Served, Served], tmp_path: Path
) -> None:
    dead = lock.wheels[0].file
    served[0].give(f"/files/{dead.filename}", Reply(status=410))
    write_lock(lock, tmp_path / "x.lock")
    done = reprobuild("fetch", tmp_path / "x.lock", "--store", tmp_path / "store", "--no-caches")
    assert done.returncode == 5, done.stderr
    for text in (dead.filename, dead.sha256, dead.url, "HTTP 410", f"hint: {GONE}"):
        assert text in done.stderr
