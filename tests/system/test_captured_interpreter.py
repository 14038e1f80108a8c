"""A Python of no package and no server: captured with the environment, it runs in the image as it ran."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from reprobuild.distribute.bundle_contents import python_inputs
from reprobuild.infra.sandbox.command import run_in_root
from reprobuild.infra.sandbox.model import Root
from reprobuild.lock.file import read_lock
from reprobuild.store.fetch import list_artefacts
from reprobuild.store.store import Store
from tests.capture.repositories import LEAN, PROGRAM
from tests.conftest import reprobuild
from tests.interpreters import MINOR, VERSION, needed_packages, site_python
from tests.system.samples import EPOCH
from tests.system.test_wheel_libraries import unpacked

# Each needs a library that no wheel and no base without it has.
MODULES = "ssl, sqlite3, ctypes, lzma, bz2, readline, curses.panel"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return site_python(tmp_path_factory.mktemp("site"))


@pytest.fixture
def snapshot(python: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "snapshot"
    argv = [python, PROGRAM, "-o", folder, "--include", "interpreter"]
    subprocess.run(argv, env=LEAN, cwd=tmp_path, check=True, capture_output=True)
    rows = [row.replace("[installed]", "[installed,automatic]") for row in needed_packages()]
    (folder / "apt-packages.txt").write_text("Listing...\n" + "\n".join(rows) + "\n")
    return folder


def test_the_image_has_the_python_that_ran(
    snapshot: Path, python: Path, store: Store, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = reprobuild("from-snapshot", snapshot, "-o", out, "--store", store.root, "--no-verify")
    assert done.returncode == 0, done.stderr
    assert f"python: Python {VERSION}, which the snapshot holds" in done.stderr
    lock = read_lock(out / "reprobuild.lock")
    assert (lock.interpreter.kind, lock.interpreter.version) == ("captured", VERSION)
    assert not [deb.name for deb in lock.base.packages if deb.name.startswith("python3")]
    reasons = [ruling.reason for ruling in lock.rulings]
    assert any(
        reason.endswith("needed by the shared libraries of python (libsqlite3.so.0)") for reason in reasons
    )
    assert lock.interpreter.file in list_artefacts(lock)
    assert lock.interpreter.file in python_inputs(lock)
    root = Root(folder=unpacked(out, tmp_path))
    program = "/opt/env/bin/python"
    said = run_in_root(root, [program, "-VV"], epoch=EPOCH, purpose="ask for its version").decode()
    assert said == subprocess.run([python, "-VV"], check=True, capture_output=True, text=True).stdout
    code = f"import sys, {MODULES}; print(sys.base_prefix, sys.prefix)"
    said = run_in_root(root, [program, "-c", code], epoch=EPOCH, purpose="import its modules").decode()
    assert said == "/opt/python /opt/env\n"


@pytest.mark.long
def test_on_its_machine_it_needs_no_include(
    python: Path, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No server has this build, and pyenv has: the image gets it as if the snapshot held it."""
    folder, out = tmp_path / "snapshot", tmp_path / "out"
    subprocess.run([python, PROGRAM, "-o", folder], env=LEAN, cwd=tmp_path, check=True, capture_output=True)
    rows = [row.replace("[installed]", "[installed,automatic]") for row in needed_packages()]
    (folder / "apt-packages.txt").write_text("Listing...\n" + "\n".join(rows) + "\n")
    (tmp_path / "pyenv" / "versions").mkdir(parents=True)
    (tmp_path / "pyenv" / "versions" / VERSION).symlink_to(python.parent.parent)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    done = reprobuild("from-snapshot", folder, "-o", out, "--store", store.root, "--no-verify")
    assert done.returncode == 0, done.stderr
    assert (
        f"python: Python {VERSION} of this machine, {python.parent.parent}: the build that ran" in done.stderr
    )
    lock = read_lock(out / "reprobuild.lock")
    assert (lock.interpreter.kind, lock.interpreter.version) == ("captured", VERSION)
    assert lock.interpreter.file in python_inputs(lock)
    root = Root(folder=unpacked(out, tmp_path))
    said = run_in_root(
        root, ["/opt/env/bin/python", "-VV"], epoch=EPOCH, purpose="ask for its version"
    ).decode()
    assert said == subprocess.run([python, "-VV"], check=True, capture_output=True, text=True).stdout


def test_the_users_word_goes_before_it(snapshot: Path, store: Store, tmp_path: Path) -> None:
    """As the hint says where the captured one cannot be used: here the system's own is of the same version."""
    lines = subprocess.run(
        ["apt", "list", f"python{MINOR}"], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    (line,) = [line for line in lines if line.startswith(f"python{MINOR}/")]
    name, version = line.split()[:2]
    with (snapshot / "apt-packages.txt").open("a") as stream:
        stream.write(f"{name} {version} amd64 [installed]\n")
    lock = tmp_path / "x.lock"
    done = reprobuild("lock", snapshot, "-o", lock, "--store", store.root, "--python", VERSION)
    assert done.returncode == 0, done.stderr
    assert f"the captured Python {VERSION} is not used, because `--python` was given" in done.stderr
    assert read_lock(lock).interpreter.kind == "system"


def test_a_lock_needs_the_archive(snapshot: Path, store: Store, tmp_path: Path) -> None:
    lock = tmp_path / "x.lock"
    done = reprobuild("lock", snapshot, "-o", lock, "--store", store.root)
    assert done.returncode == 0, done.stderr
    file = read_lock(lock).interpreter.file
    assert file is not None
    store.blob(file.sha256).unlink()
    done = reprobuild("fetch", lock, "--store", store.root)
    assert done.returncode == 5
    assert f"python-{VERSION}-captured.tar.gz" in done.stderr
    assert (
        "run `reprobuild from-snapshot SNAPSHOT --lock LOCK -o OUT`: it takes the file from the snapshot, or packs "
        "the same Python of this machine" in done.stderr
    )
    done = reprobuild("lock", snapshot, "-o", lock, "--store", store.root)
    assert done.returncode == 0, done.stderr
    assert store.has(file.sha256)
