"""The death of a whole archive: what is in the store is enough, for ever, and what is not is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from reprobuild.lock.file import write_lock
from reprobuild.lock.model import Lock
from reprobuild.lock.system import Base
from reprobuild.output.directory import read_image
from reprobuild.store.fetch import list_artefacts
from reprobuild.store.store import Store
from tests.conftest import reprobuild
from tests.dying import Dying, Fault, Weather
from tests.image.made import Made
from tests.system.samples import EPOCH


class Stored:
    """A file of a store as a body."""

    def __init__(self, path: Path) -> None:
        self._path, self.size = path, path.stat().st_size

    def read(self, start: int, size: int) -> bytes:
        with self._path.open("rb") as stream:
            stream.seek(start)
            return stream.read(size)


@pytest.fixture(scope="module")
def archive(base: Base, store: Store) -> Iterator[Dying]:
    """A server with every package of the base."""
    files = [deb.file for deb in (*base.packages, *base.tools)]
    with Dying({item.filename: Stored(store.blob(item.sha256)) for item in files}) as server:
        yield server


@pytest.fixture(scope="module")
def lock(archive: Dying, base: Base, tmp_path_factory: pytest.TempPathFactory) -> Lock:
    """A lock of that base, all of which stands on that server."""

    def moved(debs: tuple[object, ...]) -> tuple[object, ...]:
        return tuple(
            msgspec.structs.replace(deb, file=msgspec.structs.replace(deb.file, url=archive.address(deb.file.filename)))
            for deb in debs
        )  # fmt: skip

    there = msgspec.structs.replace(base, packages=moved(base.packages), tools=moved(base.tools))
    made = Made(tmp_path_factory.mktemp("made"))
    return made.unsealed_lock(base=there, epoch=EPOCH)


@pytest.mark.long
def test_an_archive_dies_and_the_image_lives(
    archive: Dying, lock: Lock, tree: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fetched in bad weather, built without the archive, cleaned, and built again without any work."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    path, store, wanted = tmp_path / "x.lock", tmp_path / "store", len(list_artefacts(lock))
    write_lock(lock, path)
    archive.weather = Weather(seed=9, chance=0.2)
    fetched = reprobuild("fetch", path, "--store", store, "--no-caches")
    archive.weather = None
    assert fetched.returncode == 0, fetched.stderr
    assert f"{wanted} files in the store, {wanted} of them fetched now" in fetched.stdout
    assert len(archive.asked) > wanted

    asked = len(archive.asked)
    dead: tuple[Fault, ...] = ("replaced", "silent", "deleted")
    for fault in dead:
        archive.everything = fault
        again = reprobuild("fetch", path, "--store", store, "--no-caches")
        assert again.returncode == 0, again.stderr
    built = reprobuild("build", path, "-o", tmp_path / "a", "--store", store)
    assert built.returncode == 0, built.stderr
    assert "installing" in built.stderr
    sealed, first = read_image(tmp_path / "a")
    assert sealed.realised.base == tree  # the one that was made of the same packages from their own archive
    assert len(archive.asked) == asked

    (Store(store)).add(b"stray")
    cleaned = reprobuild("store", "gc", "--store", store)
    assert cleaned.returncode == 0, cleaned.stderr
    for given in (path, tmp_path / "a" / "reprobuild.lock"):
        out = tmp_path / f"again-{given.name}"
        done = reprobuild("build", given, "-o", out, "--store", store, "--offline")
        assert done.returncode == 0, done.stderr
        assert not any(word in done.stderr for word in ("installing", "compiling", "building", "fetched"))
        assert read_image(out)[1] == first
    archive.everything = None


@pytest.mark.parametrize("fault", ["deleted", "replaced", "short", "login", "elsewhere", "loop", "refused"])
def test_with_an_empty_store_the_failure_names_what_is_missing(
    archive: Dying, lock: Lock, fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    few = msgspec.structs.replace(lock.base, packages=lock.base.packages[:5], tools=())
    write_lock(msgspec.structs.replace(lock, base=few), tmp_path / "x.lock")
    dead = few.packages[3].file
    archive.faults = {dead.filename: fault}
    done = reprobuild("fetch", tmp_path / "x.lock", "--store", tmp_path / "store", "--no-caches")
    archive.faults = {}
    assert done.returncode == 5, done.stderr
    for expected in (dead.filename, dead.sha256, f"{dead.size} bytes", dead.url, "hint: "):
        assert expected in done.stderr
    assert not Store(tmp_path / "store").has(dead.sha256)
