"""The package archive has moved on since the snapshot: what stands in is named, and only on the user's word."""

from __future__ import annotations

import functools
import hashlib
import http.server
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import EXAMPLE, Built, reprobuild
from tests.loopback import Server

MOVED = "libjemalloc2"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


def stanza(path: Path) -> str:
    control = subprocess.run(["dpkg-deb", "-f", path], capture_output=True, text=True, check=True).stdout
    content = path.read_bytes()
    sha256 = hashlib.sha256(content).hexdigest()
    return f"{control}Filename: {path.name}\nSize: {len(content)}\nSHA256: {sha256}\n"


def rebuild(path: Path, folder: Path) -> None:
    """Replace a package by a later revision of itself, as a point release does."""
    subprocess.run(["dpkg-deb", "-R", path, folder / "tree"], check=True)
    control = folder / "tree" / "DEBIAN" / "control"
    text = control.read_text()
    version = next(line for line in text.splitlines() if line.startswith("Version: "))
    control.write_text(text.replace(version, f"{version}+deb12u9"))
    subprocess.run(["dpkg-deb", "-b", folder / "tree", path], check=True, capture_output=True)


@pytest.fixture
def moved_mirror(built_example: Built, tmp_path: Path) -> Iterator[dict[str, str]]:
    """An archive on loopback with the example's packages, one of them a revision later; gives apt's environment."""
    root = tmp_path / "mirror"
    index = root / "dists" / "bookworm" / "main" / "binary-amd64"
    index.mkdir(parents=True)
    base = built_example.lock.base
    for deb in (*base.packages, *base.tools):
        blob = built_example.store / "blobs" / deb.file.sha256[:2] / deb.file.sha256
        path = root / deb.file.filename
        shutil.copyfile(blob, path)
        if deb.name == MOVED:
            rebuild(path, tmp_path)
    packages = "\n".join(stanza(path) for path in sorted(root.glob("*.deb"))).encode()
    (index / "Packages").write_bytes(packages)
    (root / "dists" / "bookworm" / "Release").write_text(
        "Origin: Example\nSuite: oldstable\nCodename: bookworm\nArchitectures: amd64\nComponents: main\n"
        "Date: Sat, 21 Nov 2026 00:00:00 UTC\n"
        f"SHA256:\n {hashlib.sha256(packages).hexdigest()} {len(packages)} main/binary-amd64/Packages\n"
    )
    server = Server(("127.0.0.1", 0), functools.partial(Quiet, directory=str(root)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sources, config = tmp_path / "example.list", tmp_path / "apt.conf"
    sources.write_text(f"deb [trusted=yes] http://127.0.0.1:{server.server_port} bookworm main\n")
    config.write_text(
        f'Dir::Etc::sourcelist "{sources}";\nDir::Etc::sourceparts "/dev/null";\nAcquire::http::Proxy "false";\n'
    )
    try:
        yield {**os.environ, "APT_CONFIG": str(config)}
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.long
def test_the_difference_is_named(built_example: Built, moved_mirror: dict[str, str], tmp_path: Path) -> None:
    lock = tmp_path / "later.lock"
    store = ["--store", str(tmp_path / "store"), "--decisions", str(EXAMPLE / "reprobuild.yaml")]
    done = reprobuild("lock", EXAMPLE / "snapshot", "-o", lock, *store, env=moved_mirror)
    assert done.returncode == 0, done.stderr
    assert f"{MOVED}: replaced (withdrawn)" in done.stdout
    compared = reprobuild("compare", built_example.out, lock)
    assert compared.returncode == 1
    assert compared.stdout.startswith(f"likeliest: {MOVED}: ")
    assert "differ: 1" in compared.stdout.splitlines()
    assert "+deb12u9, sha256 " in compared.stdout
    assert reprobuild("compare", built_example.out, built_example.out).returncode == 0


def test_without_the_users_word_it_is_an_error(moved_mirror: dict[str, str], tmp_path: Path) -> None:
    decisions = tmp_path / "reprobuild.yaml"
    decisions.write_text(f"sources:\n  tinytrain: {EXAMPLE / 'tinytrain.bundle'}\n")
    done = reprobuild(
        "lock", EXAMPLE / "snapshot", "-o", tmp_path / "x.lock", "--store", tmp_path / "store",
        "--decisions", decisions, env=moved_mirror,
    )  # fmt: skip
    assert done.returncode == 4
    assert f"{MOVED}: replaced (withdrawn)" in done.stderr
    assert "--accept withdrawn" in done.stderr
    assert not (tmp_path / "x.lock").exists()
