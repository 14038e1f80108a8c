"""A Python of this machine: taken where it is the very build that ran, and run only where it is the user's."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from reprobuild.ecosystems.pypi.indexes import PackageIndexes
from reprobuild.infra.http.client import Net
from reprobuild.lock.python import Interpreter
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.interpreter.choice import choose_build, make_standalone
from reprobuild.resolve.interpreter.evidence import gather_evidence
from reprobuild.resolve.interpreter.local import find_local
from reprobuild.resolve.interpreter.standalone import Build, NoBuildError
from reprobuild.snapshot.read import read_snapshot
from reprobuild.store.store import Store
from tests.capture.repositories import LEAN, PROGRAM, document
from tests.interpreters import MINOR, VERSION, site_python

NONE = "uv knows no standalone build"
# As the recipe does.
RECIPE = "import sys, sysconfig; print('Python ' + sys.version); print(sysconfig.get_platform())"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The versions of a pyenv with one Python, `site/python`."""
    folder = tmp_path_factory.mktemp("pyenv") / "versions"
    folder.mkdir()
    site_python(folder)
    return folder


class Scene(msgspec.Struct):
    """A snapshot, and what resolving is given."""

    folder: Path
    around: ResolveContext
    said: list[str]

    def find(self, version: str = VERSION, machine: str = "x86_64") -> Build:
        reports = read_snapshot(self.folder).reports
        return find_local(version, reports, machine, NoBuildError(NONE, hint="name a mirror"), self.around)

    def refused(self, version: str = VERSION, machine: str = "x86_64") -> str:
        with pytest.raises(NoBuildError) as caught:
            self.find(version, machine)
        assert caught.value.hint == "name a mirror"
        return str(caught.value)

    def with_env(self, **variables: str) -> Scene:
        return msgspec.structs.replace(
            self, around=msgspec.structs.replace(self.around, env={"PATH": "/usr/bin:/bin", **variables})
        )

    def state(self, **facts: object) -> None:
        """Change what capture.json says of the Python."""
        changed = document(self.folder)
        changed["python"].update(facts)
        (self.folder / "capture.json").write_text(json.dumps(changed, indent=1))


@pytest.fixture
def scene(made: Path, tmp_path: Path) -> Scene:
    python = made / "python" / "bin" / f"python{MINOR}"
    folder = tmp_path / "snapshot"
    subprocess.run([python, PROGRAM, "-o", folder], env=LEAN, cwd=tmp_path, check=True, capture_output=True)
    said: list[str] = []
    around = ResolveContext(
        store=Store(tmp_path / "store"), net=Net(offline=True), env={"PYENV_ROOT": str(made.parent)},
        folder=tmp_path, now=0, captured=folder,
        indexes=PackageIndexes(find_links=(), simple=(), credentials={}), say=said.append,
    )  # fmt: skip
    return Scene(folder, around, said)


@pytest.fixture
def decoy(tmp_path: Path) -> Iterator[Path]:
    """The prefix of a program that leaves a mark when it runs."""
    prefix = tmp_path / "decoy"
    (prefix / "lib" / f"python{MINOR}").mkdir(parents=True)
    (prefix / "lib" / f"python{MINOR}" / "os.py").touch()
    (prefix / "bin").mkdir()
    program = prefix / "bin" / f"python{MINOR}"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/mark\n")
    program.chmod(0o755)
    yield prefix
    assert not (tmp_path / "mark").exists()


def test_it_is_packed_as_a_capture_would(scene: Scene, made: Path, tmp_path: Path) -> None:
    build = scene.find()
    argv = [
        made / "python" / "bin" / f"python{MINOR}",
        PROGRAM,
        "-o",
        tmp_path / "o",
        "--include",
        "interpreter",
    ]
    subprocess.run(argv, env=LEAN, cwd=tmp_path, check=True, capture_output=True)
    facts = document(tmp_path / "o")["interpreter"]
    assert (build.version, build.file.sha256) == (VERSION, facts["sha256"])
    assert build.evidence == f"on this machine: Python {facts['build']}, installed in {made / 'python'}"
    kept = scene.around.store.blob(build.file.sha256).read_bytes()
    assert hashlib.sha256(kept).hexdigest() == facts["sha256"]
    assert scene.said[0] == f"python: Python {VERSION} of this machine, {made / 'python'}: the build that ran"


def test_the_lock_has_it_as_a_captured_one(scene: Scene) -> None:
    wanted = make_standalone(
        Interpreter(version=VERSION, executable=f"/usr/bin/python{MINOR}", evidence="capture")
    )
    choice = choose_build(wanted, gather_evidence(read_snapshot(scene.folder)), scene.find)
    found = choice.interpreter
    assert (found.kind, found.version, found.executable) == (
        "captured", VERSION, f"/opt/python/bin/python{MINOR}"
    )  # fmt: skip
    assert found.evidence.startswith("on this machine: Python ")
    assert found.file is not None
    assert found.file.filename == f"python-{VERSION}-captured.tar.gz"
    assert choice.rulings == ()


def test_a_snapshot_of_the_recipe_states_the_build(scene: Scene, made: Path) -> None:
    (scene.folder / "capture.json").unlink()
    (scene.folder / "requirements.txt").touch()
    program = made / "python" / "bin" / f"python{MINOR}"
    said = subprocess.run([program, "-c", RECIPE], check=True, capture_output=True).stdout
    (scene.folder / "python.txt").write_bytes(said)
    assert scene.find().version == VERSION
    (scene.folder / "python.txt").write_bytes(said.splitlines()[0])  # of an unknown platform
    assert scene.refused() == NONE


def test_a_version_with_a_broken_line(scene: Scene, made: Path) -> None:
    """As Python 3.9 and older print it."""
    (scene.folder / "capture.json").unlink()
    (scene.folder / "requirements.txt").touch()
    (scene.folder / "python.txt").write_text(
        f"Python {VERSION} (default, May  9 2026, 07:33:04) \n[GCC 12.2.0]\nlinux-x86_64\n"
    )
    assert f"{made / 'python'} is another build ({VERSION} (" in scene.refused()


@pytest.mark.parametrize(
    "facts",
    [
        {"build": ["main", "Jan  1 2020 00:00:00"]},
        {"compiler": "Clang 19.1.6"},
        {"version": f"{VERSION}+"},
    ],
)
def test_another_build(scene: Scene, made: Path, facts: dict[str, object]) -> None:
    scene.state(**facts)
    said = scene.refused()
    assert said.startswith(f"{NONE}; {made / 'python'} is another build ({VERSION} (")
    assert not scene.said


def test_what_no_build_is_stated_for(scene: Scene) -> None:
    """The error is that of the standalone builds."""
    assert scene.refused(version="3.11.99") == NONE
    assert scene.refused(machine="aarch64") == NONE
    scene.state(platform="linux-aarch64")
    assert scene.refused() == NONE
    scene.state(platform="")
    assert scene.refused() == NONE
    (scene.folder / "capture.json").unlink()
    (scene.folder / "requirements.txt").touch()
    assert scene.refused() == NONE


def test_a_path_of_the_snapshot_is_not_run(scene: Scene, decoy: Path) -> None:
    scene.state(base_prefix=str(decoy))
    alone = scene.with_env()
    said = alone.refused()
    reason = f"{decoy} is not looked at: no directory of PATH leads to it, and no manager keeps it"
    assert said.startswith(f"{NONE}; {reason}")
    assert scene.find().version == VERSION  # pyenv's is the build
    for odd in ("/usr", "relative", f"{decoy}/../decoy/none", "/" + "x" * 300):
        scene.state(base_prefix=odd)
        assert "is not looked at" not in alone.refused()


def test_path_leads_to_it(scene: Scene, made: Path, tmp_path: Path) -> None:
    """As a loaded module puts it there; a virtual environment leads to the Python below it."""
    program = made / "python" / "bin" / f"python{MINOR}"
    assert scene.with_env(PATH=f"/usr/bin:{program.parent}").find().version == VERSION
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin" / f"python{MINOR}").symlink_to(program)
    assert scene.with_env(PATH=f"{tmp_path}/venv/bin").find().evidence.endswith(f"in {made / 'python'}")
    relative = os.path.relpath(program.parent)
    assert "the build that ran" not in scene.with_env(PATH=relative).refused()


@pytest.mark.parametrize(
    ("variable", "below"),
    [("UV_PYTHON_INSTALL_DIR", ""), ("HOME", ".pyenv/versions"),
     *(pytest.param(*row, marks=pytest.mark.long) for row in (
         ("XDG_DATA_HOME", "uv/python"), ("HOME", ".local/share/uv/python"), ("ASDF_DATA_DIR", "installs/python"),
         ("MISE_DATA_DIR", "installs/python")))],
)  # fmt: skip
def test_each_manager_has_its_folder(
    scene: Scene, made: Path, tmp_path: Path, variable: str, below: str
) -> None:
    folder = tmp_path / "home" / below
    folder.mkdir(parents=True)
    (folder / "mine").symlink_to(made / "python")
    assert scene.with_env(**{variable: str(tmp_path / "home")}).find().version == VERSION


def _led_away(path: Path) -> Path:
    other = path.parent.parent / f"elsewhere-{path.name}"
    path.rename(other)
    path.symlink_to(other)
    return path


def _with_headers(base: Path) -> Path:
    header = base / "include" / f"python{MINOR}" / "Python.h"
    header.parent.mkdir(parents=True, exist_ok=True)
    header.touch()
    return header


def _with_cache(base: Path) -> Path:
    cache = base / "lib" / f"python{MINOR}" / "__pycache__"
    cache.mkdir(exist_ok=True)
    return cache


Spoil = Callable[[Path], Path]


def _writable(path: Path) -> Path:
    path.chmod(path.stat().st_mode | 0o002)
    return path


def _of_group(path: Path) -> Path:
    path.chmod(path.stat().st_mode | 0o020)
    return path


def _of_another(path: Path) -> Path:
    os.lchown(path, 12345, -1)
    return path


SPOILS: dict[str, Spoil] = {
    "the program": lambda base: _writable(base / "bin" / f"python{MINOR}"),
    "its directory": lambda base: _of_group(base / "bin"),
    "the directory above": lambda base: _writable(base.parent),
    "a module": lambda base: _of_group(base / "lib" / f"python{MINOR}" / "os.py"),
    "a directory of modules": lambda base: _writable(base / "lib" / f"python{MINOR}"),
    "the library directory": lambda base: _writable(base / "lib"),
    "of another user": lambda base: _of_another(base / "bin" / f"python{MINOR}"),
    "of another user above": lambda base: _of_another(base),
    "a library elsewhere": lambda base: _led_away(base / "lib" / f"python{MINOR}"),
    "a header": lambda base: _of_another(_with_headers(base)),
    "bytecode": lambda base: _writable(_with_cache(base)),
}


@pytest.mark.parametrize("what", SPOILS)
def test_what_others_can_change_is_not_run(scene: Scene, decoy: Path, tmp_path: Path, what: str) -> None:
    versions = tmp_path / "pyenv" / "versions"
    versions.mkdir(parents=True)
    shutil.move(decoy, versions / "3")
    spoiled = SPOILS[what](versions / "3")
    said = scene.with_env(PYENV_ROOT=str(tmp_path / "pyenv")).refused()
    assert f"{versions / '3'} is not run: others can change {spoiled}" in said


def test_a_python_of_the_system_or_of_conda_is_not_asked(scene: Scene, decoy: Path, tmp_path: Path) -> None:
    (decoy / "conda-meta").mkdir()
    scene.state(base_prefix="/usr")
    assert scene.with_env(PATH=f"{decoy}/bin").refused() == NONE


@pytest.mark.parametrize("text", ["exit 1", "echo no", "echo '{}'"])
def test_a_program_that_tells_no_build(scene: Scene, tmp_path: Path, text: str) -> None:
    library = tmp_path / "odd" / "lib" / f"python{MINOR}"
    library.mkdir(parents=True)
    (library / "os.py").touch()
    program = tmp_path / "odd" / "bin" / f"python{MINOR}"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    scene.state(base_prefix="/usr")
    reason = "does not start" if text == "exit 1" else "does not state its build"
    assert (
        scene.with_env(PATH=str(program.parent)).refused().startswith(f"{NONE}; {tmp_path / 'odd'} {reason}")
    )
