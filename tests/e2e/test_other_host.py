"""A machine without apt and dpkg, as those of other distributions: lock and build give what they give here."""

from __future__ import annotations

import http.server
import os
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from reprobuild.image.model import Image
from reprobuild.lock.file import read_lock
from reprobuild.output.directory import read_image
from tests.conftest import reprobuild
from tests.e2e.test_imported import poetry_lock
from tests.loopback import Server

DATED = ("debian-snapshot", "debian-security-snapshot")
LOCK = ("--python", "3.11.2", "--base", "debian/bookworm", "--accept", "no-apt-list")


@pytest.fixture
def nothing(tmp_path: Path) -> Iterator[str]:
    """Yield the address of a server without any document."""
    (tmp_path / "nothing").mkdir()
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path / "nothing")
    with Server(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def services(address: str, *names: str) -> tuple[str, ...]:
    """Return the options that name an address for services."""
    return tuple(word for name in names for word in ("--service", f"{name}={address}"))


@pytest.fixture
def without_apt(tmp_path: Path) -> dict[str, str]:
    """Return an environment whose PATH has the programs of this machine, but for those of apt and dpkg."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for directory in os.environ["PATH"].split(":"):
        for program in Path(directory).iterdir() if Path(directory).is_dir() else ():
            if not program.name.startswith(("apt", "dpkg")) and not (folder / program.name).exists():
                (folder / program.name).symlink_to(program)
    return {**os.environ, "PATH": str(folder)}


def mirrors(lock: Path) -> tuple[str, ...]:
    """Return the options that name the mirrors of a lock as the archives of the release."""
    roots = {deb.file.url.partition("pool/")[0] for deb in read_lock(lock).base.packages}
    names = {root: f"debian{'-security' * ('security' in root)}-archive" for root in sorted(roots)}
    return tuple(word for root, name in names.items() for word in ("--service", f"{name}={root}"))


def build(lock: Path, out: Path, store: Path, env: dict[str, str] | None = None) -> Image:
    done = reprobuild("build", lock, "-o", out, "--store", store, env=env)
    assert done.returncode == 0, done.stderr
    return read_image(out)[1]


def test_lock_and_build_need_neither_apt_nor_dpkg(
    tmp_path: Path, test_store: Path, without_apt: dict[str, str], nothing: str
) -> None:
    """Files of the base come from other addresses, and have the same bytes: the trees are equal."""
    path = poetry_lock(tmp_path)
    here, there = tmp_path / "here.lock", tmp_path / "there.lock"
    done = reprobuild("lock", path, "-o", here, "--store", test_store, *LOCK)
    assert done.returncode == 0, done.stderr
    silent = services(f"{nothing}{{time}}/", *DATED)
    done = reprobuild(
        "lock", path, "-o", there, "--store", test_store, *LOCK, *silent, *mirrors(here), env=without_apt
    )
    assert done.returncode == 0, done.stderr
    assert "asking the archives that are known for the release" in done.stderr
    assert "No such file or directory: 'apt-get'" not in done.stderr
    debs = [[deb.file.sha256 for deb in read_lock(lock).base.packages] for lock in (here, there)]
    assert debs[0] == debs[1]
    first = build(here, tmp_path / "here", test_store)
    second = build(there, tmp_path / "there", test_store, without_apt)
    assert first.tree == second.tree  # the label with the lock's digest differs: a lock has addresses


def test_without_any_archive_the_cause_is_named(
    tmp_path: Path, test_store: Path, without_apt: dict[str, str], nothing: str
) -> None:
    present = services(nothing, "debian-archive", "debian-security-archive")
    silent = (*services(f"{nothing}{{time}}/", *DATED), *present)
    done = reprobuild(
        "lock", poetry_lock(tmp_path), "-o", tmp_path / "x.lock", "--store", test_store, *LOCK, *silent,
        env=without_apt,
    )  # fmt: skip
    assert done.returncode == 4
    error, _, hint = done.stderr.partition("hint: ")
    assert "no archive that is known for debian/bookworm answers:" in error
    assert f"{nothing}: " in error
    assert "has none of bookworm" in error
    assert hint.strip() == (
        "name a mirror of it with --service debian-archive=URL; "
        "or lock on a Debian or Ubuntu machine, or in a container of one"
    )
