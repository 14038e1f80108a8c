"""Files of the caches of pip, conda and apt: taken where they are right, and passed over whatever else they are."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from reprobuild.errors import FetchError
from reprobuild.infra.flock import machine_name
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.retry import RetryPolicy
from reprobuild.lock.system import Artefact
from reprobuild.store.caches import APT, Caches, user_caches
from reprobuild.store.fetch import fetch
from reprobuild.store.store import Store
from tests.image.made import make_wheel
from tests.resolve.served import Reply, Served

OFFLINE = Net(offline=True)
CONTENT = b"the content" * 5000


def artefact(name: str, content: bytes = CONTENT, url: str = "http://gone.test/x") -> Artefact:
    return Artefact(filename=name, sha256=hashlib.sha256(content).hexdigest(), size=len(content), url=url)


def in_pip(folder: Path, url: str) -> Path:
    """Return where pip keeps the body of an answer."""
    key = hashlib.sha224(url.encode()).hexdigest()
    path = folder.joinpath("http-v2", *key[:5], f"{key}.body")
    path.parent.mkdir(parents=True)
    return path


@pytest.mark.parametrize(
    ("env", "pip", "conda"),
    [
        ({}, [], []),
        ({"HOME": "/h"}, ["/h/.cache/pip"], ["/h/.conda/pkgs"]),
        ({"HOME": "/h", "XDG_CACHE_HOME": "/c"}, ["/c/pip"], ["/h/.conda/pkgs"]),
        ({"HOME": "/h", "XDG_CACHE_HOME": "/c", "PIP_CACHE_DIR": "/p"}, ["/p"], ["/h/.conda/pkgs"]),
        (
            {"CONDA_PKGS_DIRS": "/a,/b", "CONDA_EXE": "/opt/conda/bin/conda", "MAMBA_ROOT_PREFIX": "/m"},
            [],
            ["/a", "/b", "/opt/conda/pkgs", "/m/pkgs"],
        ),
    ],
)
def test_where_they_are(env: dict[str, str], pip: list[str], conda: list[str]) -> None:
    assert user_caches(env) == Caches(
        pip=tuple(map(Path, pip)), conda=tuple(map(Path, conda)), apt=(Path("/var/cache/apt/archives"),)
    )
    assert Path("/var/cache/apt/archives") == APT


@pytest.mark.parametrize(
    ("name", "cached"),
    [
        ("automake_1.16.5-1.3_all.deb", "automake_1%3a1.16.5-1.3_all.deb"),
        ("bash_5.2.15-2+b7_amd64.deb", "bash_5.2.15-2+b7_amd64.deb"),
        ("numpy-1.26.4-py311h64a7726_0.conda", "numpy-1.26.4-py311h64a7726_0.conda"),
        ("six-1.16-0.tar.bz2", "six-1.16-0.tar.bz2"),
    ],
)
def test_a_file_is_taken_by_its_name(name: str, cached: str, tmp_path: Path) -> None:
    folder, store = tmp_path / "cache", Store(tmp_path / "store")
    folder.mkdir()
    (folder / cached).write_bytes(CONTENT)
    caches = Caches(apt=(folder, tmp_path / "none"), conda=(tmp_path / "none", folder))
    assert fetch([artefact(name)], store, OFFLINE, caches=caches) == 1
    blob = store.blob(artefact(name).sha256)
    assert blob.read_bytes() == CONTENT
    assert blob.stat().st_ino != (folder / cached).stat().st_ino
    assert list((store.root / "partial").iterdir()) == []


@pytest.mark.parametrize(
    "url", ["http://Host.test/a%20b/x.whl?q=1", "http://u:p@host.test/a%20b/x.whl?q=1#sha256=0"]
)
def test_a_file_is_taken_by_its_address(url: str, tmp_path: Path) -> None:
    in_pip(tmp_path / "pip", "http://host.test/a%20b/x.whl?q=1").write_bytes(CONTENT)
    store = Store(tmp_path / "store")
    fetch([artefact("x.whl", url=url)], store, OFFLINE, caches=Caches(pip=(tmp_path / "pip",)))
    assert store.has(artefact("x.whl").sha256)


HOSTILE = [
    "other",
    "longer",
    "shorter",
    "empty",
    "link",
    "loop",
    "pipe",
    "socket",
    "folder",
    "device",
    "unreadable",
]


@pytest.mark.parametrize("kind", HOSTILE)
def test_whatever_else_stands_there_is_passed_over(kind: str, tmp_path: Path) -> None:
    store, path = Store(tmp_path / "store"), in_pip(tmp_path / "pip", "http://gone.test/x")
    (tmp_path / "right").write_bytes(CONTENT)
    if kind == "link":
        path.symlink_to(tmp_path / "right")
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as end:
            end.bind(f"{short}/s")  # the path of a socket is short
            Path(short, "s").rename(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        os.mknod(path, 0o20666, os.makedev(1, 5))  # /dev/zero
    elif kind == "unreadable":
        path.parent.rmdir()
        path.parent.write_bytes(b"a file")
    else:
        wrong = {
            "other": CONTENT[:-1] + b"!",
            "longer": CONTENT + b"!",
            "shorter": CONTENT[:-1],
            "empty": b"",
        }
        path.write_bytes(wrong[kind])
    caches = Caches(pip=(tmp_path / "pip",))
    for item in (
        artefact("x.whl"),
        Artefact(filename="x.whl", sha256=artefact("x").sha256, size=0, url="http://gone.test/x"),
    ):
        with pytest.raises(FetchError, match="--offline forbids the network"):
            fetch([item], store, OFFLINE, caches=caches)
    assert not store.has(artefact("x").sha256)
    assert list((store.root / "partial").iterdir()) == []


def test_names_that_lead_out_are_not_looked_for(tmp_path: Path) -> None:
    (tmp_path / "conda").mkdir()
    (tmp_path / "x.conda").write_bytes(CONTENT)
    for name in ("../x.conda", "a\0b.conda"):
        with pytest.raises(FetchError, match="--offline"):
            fetch(
                [artefact(name)],
                Store(tmp_path / "store"),
                OFFLINE,
                caches=Caches(conda=(tmp_path / "conda",)),
            )


def test_what_the_real_pip_keeps_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    newer, cache = tmp_path / "newer", tmp_path / "cache"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "install", "--target", str(newer), "pip>=24"], check=True)
    wheel = make_wheel(tmp_path / "tool-1.0-py3-none-any.whl", {"tool.py": b"x = 1\n" * 1000}).read_bytes()
    sha256 = hashlib.sha256(wheel).hexdigest()
    with Served() as server:
        headers = {"Cache-Control": "max-age=365000000, immutable, public"}
        url = server.give("/files/tool-1.0-py3-none-any.whl", Reply(wheel, headers=headers))
        page = f'<a href="{url}#sha256={sha256}">tool-1.0-py3-none-any.whl</a>'.encode()
        server.give("/simple/tool/", Reply(page, headers={"Content-Type": "text/html"}))
        env = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
        env |= {"PYTHONPATH": str(newer), "PIP_CONFIG_FILE": os.devnull, "HOME": str(tmp_path)}
        argv = [*pip, "download", "--no-deps", "--index-url", f"{server.url}/simple"]
        # Else pip keeps nothing of plain HTTP.
        argv += ["--cache-dir", str(cache), "--trusted-host", server.host]
        subprocess.run([*argv, "-d", str(tmp_path / "got"), "tool"], check=True, env=env)
        item = Artefact(filename="tool-1.0-py3-none-any.whl", sha256=sha256, size=len(wheel), url=url)
        store = Store(tmp_path / "store")
        assert fetch([item], store, OFFLINE, caches=user_caches({"PIP_CACHE_DIR": str(cache)})) == 1
    assert store.verified(sha256, "it").read_bytes() == wheel


def test_what_is_wrong_in_a_cache_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Served() as server:
        item = artefact("x.whl", url=server.give("/x.whl", CONTENT))
        in_pip(tmp_path / "pip", item.url).write_bytes(CONTENT[::-1])
        store = Store(tmp_path / "store")
        assert (
            fetch([item], store, Net(manners=RetryPolicy(tries=1)), caches=Caches(pip=(tmp_path / "pip",)))
            == 1
        )
    assert store.blob(item.sha256).read_bytes() == CONTENT


def test_a_cache_is_asked_before_an_unfinished_download_goes_on(tmp_path: Path) -> None:
    folder, store, item = tmp_path / "cache", Store(tmp_path / "store"), artefact("six-1.16-0.conda")
    folder.mkdir()
    part = store.root / "partial" / f"{item.sha256}.{machine_name()}"
    part.parent.mkdir(parents=True)
    part.write_bytes(CONTENT[:10])
    (folder / item.filename).write_bytes(b"other")
    with pytest.raises(FetchError):
        fetch([item], store, OFFLINE, caches=Caches(conda=(folder,)))
    assert part.read_bytes() == CONTENT[:10]
    (folder / item.filename).write_bytes(CONTENT)
    assert fetch([item], store, OFFLINE, caches=Caches(conda=(folder,))) == 1
    assert list(part.parent.iterdir()) == []


def test_a_damaged_file_of_the_store_is_brought_again(tmp_path: Path) -> None:
    source, store = tmp_path / "x.whl", Store(tmp_path / "store")
    source.write_bytes(CONTENT)
    item = artefact("x.whl", url=source.as_uri())
    fetch([item], store, Net())
    store.blob(item.sha256).chmod(0o644)
    store.blob(item.sha256).write_bytes(b"damaged")
    assert fetch([item], Store(store.root), Net()) == 1
    assert store.blob(item.sha256).read_bytes() == CONTENT
