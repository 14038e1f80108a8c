"""A wheel that needs a library of the system: with the rule its import works in the image, without the library not."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprobuild.ecosystems.apt.index import SystemIndex, newest_candidate
from reprobuild.image.formats.flatten import open_flat_image
from reprobuild.image.oci.read import read_layout
from reprobuild.infra.proc.errors import ProcessFailedError
from reprobuild.infra.sandbox.command import run_in_root
from reprobuild.infra.sandbox.model import Root
from reprobuild.lock.file import read_lock
from reprobuild.lock.system import PREFIX
from reprobuild.realise.unpack import unpack_root
from reprobuild.store.store import Store
from tests.conftest import reprobuild
from tests.system.samples import EPOCH

# Small, and linked with a library of the system that nothing else needs.
WHEEL = "pyodbc==5.2.0"
LIBRARY = "libodbc.so.2"
PACKAGE = "libodbc2"


@pytest.fixture
def snapshot(bookworm: SystemIndex, tmp_path: Path) -> Path:
    """A host that had the library for another reason: its package is only marked automatic."""
    rows = []
    for name, mark in (
        ("python3.11", "installed"),
        (PACKAGE, "installed,automatic"),
        ("libstdc++6", "installed,automatic"),
    ):
        candidate = newest_candidate(bookworm.versions(name))
        assert candidate is not None
        rows.append(f"{name}/oldstable,now {candidate.version} amd64 [{mark}]\n")
    folder = tmp_path / "snapshot"
    folder.mkdir()
    (folder / "apt-packages.txt").write_text("".join(rows))
    (folder / "requirements.txt").write_text(f"{WHEEL}\n")
    return folder


def unpacked(out: Path, folder: Path) -> Path:
    """Return a root directory with what is in the image."""
    with open_flat_image(read_layout(out / "image"), folder) as flat:
        path = folder / "flat.tar"
        path.write_bytes(b"".join(flat.stream()))
    unpack_root(path, folder / "root")
    return folder / "root"


def imported(root: Path) -> str:
    """Import the wheel, without an engine; return what the loader said of it."""
    argv = [f"{PREFIX}/bin/python", "-c", "import pyodbc; print(pyodbc.version)"]
    try:
        return run_in_root(Root(folder=root), argv, epoch=EPOCH, purpose="import a wheel").decode()
    except ProcessFailedError as err:
        return err.stderr


@pytest.mark.long
def test_the_library_comes_with_the_wheel(snapshot: Path, store: Store, tmp_path: Path) -> None:
    out = tmp_path / "with"
    options = ["--store", store.root, "--base", "debian/bookworm", "--no-verify"]
    done = reprobuild("from-snapshot", snapshot, "-o", out, *options)
    assert done.returncode == 0, done.stderr
    rulings = {ruling.subject: ruling for ruling in read_lock(out / "reprobuild.lock").rulings}
    assert rulings[PACKAGE].outcome == "pinned"
    assert rulings[PACKAGE].reason.endswith(f"needed by the shared libraries of pyodbc ({LIBRARY})")
    root = unpacked(out, tmp_path)
    assert imported(root) == "5.2.0\n"
    found = [path for path in (root / "usr/lib").rglob(f"{LIBRARY}*") if path.exists()]
    assert found
    for path in found:
        path.unlink()
    assert f"{LIBRARY}: cannot open shared object file" in imported(root)  # so the import does need it


def test_a_library_that_is_dropped_is_told(snapshot: Path, store: Store, tmp_path: Path) -> None:
    lock = tmp_path / "x.lock"
    options = ["--store", store.root, "--base", "debian/bookworm", "--drop", PACKAGE]
    done = reprobuild("lock", snapshot, "-o", lock, *options)
    assert done.returncode == 0, done.stderr
    assert PACKAGE not in {deb.name for deb in read_lock(lock).base.packages}
    rulings = {ruling.subject: ruling for ruling in read_lock(lock).rulings}
    assert (rulings[LIBRARY].outcome, rulings[LIBRARY].kind) == ("excluded", "missing-library")
    assert f"{PACKAGE} was dropped by decision" in rulings[LIBRARY].reason
