"""Standalone builds through the real uv: mirrors as the user has them, wrong bytes, and what cannot be had."""

from __future__ import annotations

import functools
import hashlib
import http.server
import json
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from reprobuild.ecosystems.pypi.indexes import PackageIndexes
from reprobuild.infra.http.client import Net
from reprobuild.lock.model import Lock
from reprobuild.lock.python import Interpreter
from reprobuild.lock.system import Artefact
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.interpreter.standalone import NoBuildError, find_build, with_mirror_address
from reprobuild.store.fetch import fetch
from reprobuild.store.store import Store
from tests.image.made import Made
from tests.interpreters import fake_build, offer
from tests.loopback import Server

NAME = "cpython-3.11.7+20240107-x86_64-unknown-linux-gnu-install_only.tar.gz"
TAIL = f"/python-build-standalone/releases/download/20240107/{NAME.replace('+', '%2B')}"


def around(store: Path, variables: dict[str, str], *, offline: bool = False) -> ResolveContext:
    store.mkdir(exist_ok=True)
    return ResolveContext(
        store=Store(store), net=Net(offline=offline), env={**os.environ, **variables}, folder=store, now=0,
        indexes=PackageIndexes(find_links=(), simple=(), credentials={}), say=lambda text: None,
    )  # fmt: skip


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return fake_build(tmp_path / "python.tar.gz", "3.11")


@pytest.fixture
def variables(tmp_path: Path, archive: Path) -> dict[str, str]:
    return offer(tmp_path / "mirror", {"3.11.7": archive, "3.11.4": archive}, machine="x86_64")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """The address of a server of what is in the mirror."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *said: object) -> None: ...

    handler = functools.partial(Quiet, directory=str(tmp_path / "mirror"))
    with Server(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_build_is_locked_by_its_publishers_address(
    tmp_path: Path, archive: Path, variables: dict[str, str]
) -> None:
    here = around(tmp_path / "store", variables)
    build = find_build("3.11.7", "x86_64", here)
    sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert build.version == "3.11.7"
    assert build.file == Artefact(
        filename=NAME, sha256=sha256, size=archive.stat().st_size, url=build.file.url
    )
    assert build.file.url.startswith("https://")
    assert build.file.url.endswith(TAIL)  # the host is uv's own default
    assert here.store.blob(sha256).read_bytes() == archive.read_bytes()
    assert find_build("3.11", "x86_64", here) == build  # the newest


def test_it_is_brought_once(tmp_path: Path, variables: dict[str, str]) -> None:
    first = find_build("3.11.7", "x86_64", around(tmp_path / "store", variables))
    shutil.rmtree(tmp_path / "mirror" / "20240107")
    assert find_build("3.11.7", "x86_64", around(tmp_path / "store", variables, offline=True)) == first
    with pytest.raises(NoBuildError, match=r"could not bring the standalone build of Python 3\.11\.4"):
        find_build("3.11.4", "x86_64", around(tmp_path / "store", variables))


def test_nothing_of_the_user_is_changed(tmp_path: Path, variables: dict[str, str]) -> None:
    home = {
        name: str(tmp_path / name) for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_BIN_HOME")
    }
    find_build("3.11.7", "x86_64", around(tmp_path / "store", {**variables, **home}))
    assert [name for name, path in home.items() if Path(path).exists()] == []


def test_other_bytes_than_uv_knows_are_refused(tmp_path: Path, variables: dict[str, str]) -> None:
    fake_build(tmp_path / "mirror" / "20240107" / NAME, "3.12")
    here = around(tmp_path / "store", variables)
    with pytest.raises(NoBuildError, match="Hash mismatch") as caught:
        find_build("3.11.7", "x86_64", here)
    assert caught.value.hint == (
        "name a mirror as uv has it, UV_PYTHON_INSTALL_MIRROR=URL, or take the system's Python: `--python X.Y`; "
        "where the environment still is, `reprobuild capture --include interpreter` packs its own Python"
    )
    assert not (here.store.root / "blobs").exists()


@pytest.mark.parametrize(
    ("version", "machine"), [("3.11.6", "x86_64"), ("3.12", "x86_64"), ("3.11.7", "aarch64")]
)
def test_what_uv_does_not_know(tmp_path: Path, variables: dict[str, str], version: str, machine: str) -> None:
    with pytest.raises(NoBuildError, match=f"uv knows no standalone build of Python {version} for {machine}"):
        find_build(version, machine, around(tmp_path / "store", variables))


def test_a_free_threaded_build_is_another_one(tmp_path: Path) -> None:
    archive, ordinary = (
        fake_build(tmp_path / "free.tar.gz", "3.13t"),
        fake_build(tmp_path / "own.tar.gz", "3.13"),
    )
    mirror = tmp_path / "mirror"
    offered = offer(mirror, {"3.13.1": ordinary}, machine="x86_64")
    others = json.loads((mirror / "builds.json").read_text())
    with pytest.raises(NoBuildError, match=r"uv knows no standalone build of Python 3\.13\.1t for x86_64"):
        find_build("3.13.1t", "x86_64", around(tmp_path / "store", offered))
    variables = offer(mirror, {"3.13.1": archive, "3.13.0": archive}, machine="x86_64", free=True)
    known = others | json.loads((mirror / "builds.json").read_text())
    (mirror / "builds.json").write_text(json.dumps(known))
    here = around(tmp_path / "store", variables)
    build = find_build("3.13t", "x86_64", here)
    assert build.version == "3.13.1"
    assert "freethreaded" in build.file.filename
    assert build.file.sha256 == hashlib.sha256(archive.read_bytes()).hexdigest()
    plain = find_build("3.13.1", "x86_64", here)
    assert plain.file.sha256 == hashlib.sha256(ordinary.read_bytes()).hexdigest()


def test_without_a_network_the_password_of_a_mirror_is_not_told(
    tmp_path: Path, variables: dict[str, str], served: str
) -> None:
    mirror = {"UV_PYTHON_INSTALL_MIRROR": f"http://user:s3cret-word@{served}"}
    with pytest.raises(NoBuildError, match=r"3\.11\.7") as caught:
        find_build("3.11.7", "x86_64", around(tmp_path / "store", {**variables, **mirror}, offline=True))
    assert "s3cret" not in str(caught.value) + caught.value.hint
    build = find_build("3.11.7", "x86_64", around(tmp_path / "store", {**variables, **mirror}))
    assert build.file.url.endswith(TAIL)
    assert served not in build.file.url


def locked(made: Made, file: Artefact) -> Lock:
    python = Interpreter(
        version="3.11.7",
        executable="/opt/python/bin/python3.11",
        evidence="made",
        kind="standalone",
        file=file,
    )
    return made.lock(interpreter=python)


def test_a_lock_is_fetched_from_the_mirror(tmp_path: Path, variables: dict[str, str], served: str) -> None:
    """Through our own client, by the sha256 of the lock; also a build that this uv does not know."""
    build = find_build("3.11.7", "x86_64", around(tmp_path / "store", variables))
    lock = locked(Made(tmp_path / "made"), build.file)
    assert (
        with_mirror_address(lock, build.file, {**os.environ, **variables, "UV_PYTHON_INSTALL_MIRROR": ""})
        == build.file
    )
    assert with_mirror_address(lock, build.file, {**os.environ, **variables}) == msgspec.structs.replace(
        build.file, url=(tmp_path / "mirror" / "20240107" / NAME).as_uri().replace("+", "%2B")
    )
    listed = json.loads((tmp_path / "mirror" / "builds.json").read_text())
    del listed["cpython-3.11.7-linux-x86_64-gnu"]
    (tmp_path / "mirror" / "builds.json").write_text(json.dumps(listed))
    mirror = {**variables, "UV_PYTHON_INSTALL_MIRROR": f"http://user:s3cret@{served}"}
    found = with_mirror_address(lock, build.file, {**os.environ, **mirror})
    assert found.url == f"http://user:s3cret@{served}/20240107/{NAME.replace('+', '%2B')}"
    other = Store(tmp_path / "other")
    assert fetch([found], other, Net()) == 1
    assert other.has(build.file.sha256)
