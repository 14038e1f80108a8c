"""`capture --include interpreter`: the running Python in one archive, without secrets and what is of no use."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reprobuild.report.text import render_snapshot
from reprobuild.snapshot.read import read_snapshot
from reprobuild_runtime import capture
from tests.capture.repositories import LEAN, PROGRAM, document
from tests.interpreters import MINOR, site_python
from tests.interpreters import PROGRAM as SYSTEM
from tests.snapshot.samples import SECRETS
from tests.untrusted.elves import elf

SECRET = next(iter(SECRETS.values()))
LIBRARY = f"lib/python{MINOR}"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return site_python(tmp_path_factory.mktemp("site"))


@pytest.fixture
def planted(python: Path) -> Iterator[Path]:
    """The prefix of that Python; what a test puts there goes away."""
    prefix = python.parent.parent
    before = set(prefix.rglob("*"))
    yield prefix
    for path in set(prefix.rglob("*")) - before:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.is_symlink() or path.exists():
            path.unlink()


def pack(python: Path, out: Path, *words: str) -> str:
    """Capture by a Python, and return what the program says."""
    argv = [python, PROGRAM, "-o", out, *(words or ("--include", "interpreter"))]
    done = subprocess.run(argv, env=LEAN, cwd=out.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


def members(out: Path) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(out / capture.PACKED) as tar:
        return {info.name.removeprefix("python/"): info for info in tar}


def left_out(out: Path) -> dict[str, str]:
    return {one["path"]: one["reason"] for one in document(out)["interpreter"]["left_out"]}


def test_the_running_python_is_packed(python: Path, tmp_path: Path) -> None:
    pack(python, tmp_path / "one")
    facts = document(tmp_path / "one")["interpreter"]
    content = (tmp_path / "one" / facts["file"]).read_bytes()
    assert (facts["sha256"], facts["bytes"]) == (hashlib.sha256(content).hexdigest(), len(content))
    said = subprocess.run([python, "-VV"], capture_output=True, text=True, check=True).stdout
    assert f"Python {facts['build']}\n" == said
    assert facts["prefix"] == str(python.parent.parent)
    found = members(tmp_path / "one")
    assert found[f"bin/python{MINOR}"].mode == 0o755
    assert {found[f"bin/{name}"].linkname for name in ("python", "python3")} == {f"python{MINOR}"}
    expected = {f"bin/python{MINOR}-config", f"{LIBRARY}/os.py", f"include/python{MINOR}/Python.h"}
    assert expected <= found.keys()
    assert {(info.uid, info.gid, info.mtime) for info in found.values()} == {(0, 0, 0)}
    assert {info.type for info in found.values()} == {tarfile.REGTYPE, tarfile.SYMTYPE}
    pack(python, tmp_path / "two")
    assert (tmp_path / "two" / facts["file"]).read_bytes() == content


def test_it_is_packed_only_if_it_is_asked_for(python: Path, tmp_path: Path) -> None:
    pack(python, tmp_path / "out", "--json")
    assert "interpreter" not in document(tmp_path / "out")
    assert not (tmp_path / "out" / capture.PACKED).exists()
    assert read_snapshot(tmp_path / "out").captured is not None


def test_show_names_it(python: Path, tmp_path: Path) -> None:
    pack(python, tmp_path / "out")
    snapshot = read_snapshot(tmp_path / "out")
    assert not [remark for remark in snapshot.remarks if remark.place.file == capture.PACKED]
    build = document(tmp_path / "out")["interpreter"]["build"]
    (line,) = [line for line in render_snapshot(snapshot).splitlines() if line.startswith("interpreter")]
    assert line.startswith(f"interpreter   Python {build}, packed from {python.parent.parent} (")


def test_what_is_of_no_use_is_not_packed(planted: Path, python: Path, tmp_path: Path) -> None:
    for name in (
        "site-packages/a.py",
        "__pycache__/os.pyc",
        "test/keycert.pem",
        "libx.a",
        "setup.exe",
        "odd.pyc",
    ):
        path = planted / LIBRARY / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x")
    (planted / "bin" / "another").write_bytes(b"x")
    (planted / "share").mkdir()
    (planted / "share" / "man").write_bytes(b"x")
    pack(python, tmp_path / "with")
    found = members(tmp_path / "with")
    names = {name.rpartition("/")[2] for name in found}
    assert not names & {"a.py", "os.pyc", "keycert.pem", "libx.a", "setup.exe", "odd.pyc", "another", "man"}
    assert left_out(tmp_path / "with") == {}


def test_its_own_libraries_come_along(planted: Path, python: Path, tmp_path: Path) -> None:
    """Those that packed files ask for, and the ones that these ask for; no other of the same directory."""
    for name, needed in {
        "libmine.so.1.2": ["libbelow.so.3"], "libbelow.so.3": [], "libother.so.1": [], f"libpython{MINOR}.so.1.0": [],
    }.items():  # fmt: skip
        (planted / "lib" / name).write_bytes(elf(needed, name))
    (planted / "lib" / "libmine.so.1").symlink_to("libmine.so.1.2")
    (planted / LIBRARY / "lib-dynload" / "_mine.so").write_bytes(elf(["libmine.so.1", "libc.so.6"]))
    pack(python, tmp_path / "out")
    found = {name for name in members(tmp_path / "out") if name.count("/") == 1 and ".so" in name}
    assert found == {
        "lib/libmine.so.1", "lib/libmine.so.1.2", "lib/libbelow.so.3", f"lib/libpython{MINOR}.so.1.0"
    }  # fmt: skip


def test_secrets_and_what_is_no_file_are_left_out_and_named(
    planted: Path, python: Path, tmp_path: Path
) -> None:
    library = planted / LIBRARY
    (library / "sitecustomize.py").write_text(f'TOKEN = "{SECRET}"\n')
    (library / ".netrc").write_text("machine x login y password z\n")
    (library / "outside.py").symlink_to("/etc/hostname")
    (library / "above.py").symlink_to("../../../../../etc/hostname")
    (library / "inside.py").symlink_to("os.py")
    os.mkfifo(library / "pipe.py")
    said = pack(python, tmp_path / "out")
    assert left_out(tmp_path / "out") == {
        f"{LIBRARY}/.netrc": "secret", f"{LIBRARY}/above.py": "special-file", f"{LIBRARY}/outside.py": "special-file",
        f"{LIBRARY}/pipe.py": "special-file", f"{LIBRARY}/sitecustomize.py": "secret",
    }  # fmt: skip
    assert "the packed interpreter is without 5 of its files" in said
    found = members(tmp_path / "out")
    assert not left_out(tmp_path / "out").keys() & found.keys()
    assert found[f"{LIBRARY}/inside.py"].linkname == "os.py"
    with tarfile.open(tmp_path / "out" / capture.PACKED) as tar:
        whole = b"".join(stream.read() for info in tar if (stream := tar.extractfile(info)))
    assert SECRET.encode() not in whole


def test_a_secret_in_what_cannot_be_left_out(planted: Path, python: Path, tmp_path: Path) -> None:
    (planted / "lib" / f"libpython{MINOR}.so.1.0").write_text(f'TOKEN = "{SECRET}"\n')
    said = pack(python, tmp_path / "out")
    assert f"the interpreter was not packed: lib/libpython{MINOR}.so.1.0 cannot be left out" in said
    assert document(tmp_path / "out")["parts"]["interpreter"]["outcome"] == "secret"
    assert document(tmp_path / "out")["interpreter"] is None
    assert not (tmp_path / "out" / capture.PACKED).exists()
    assert read_snapshot(tmp_path / "out").captured is not None


def test_a_python_of_packages_is_not_packed(planted: Path, python: Path, tmp_path: Path) -> None:
    (planted / "conda-meta").mkdir()
    assert "conda's package of Python" in pack(python, tmp_path / "conda")
    assert document(tmp_path / "conda")["parts"]["interpreter"]["outcome"] == "provided"
    assert "the system's package of Python" in pack(SYSTEM, tmp_path / "system")


def test_in_a_virtual_environment_it_is_the_one_below(python: Path, tmp_path: Path) -> None:
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "env" / "bin" / "python").symlink_to(python)
    (tmp_path / "env" / "pyvenv.cfg").write_text(f"home = {python.parent}\n")
    pack(tmp_path / "env" / "bin" / "python", tmp_path / "out")
    assert document(tmp_path / "out")["interpreter"]["prefix"] == str(python.parent.parent)
    assert f"bin/python{MINOR}" in members(tmp_path / "out")


@pytest.fixture
def packing(tmp_path: Path) -> Any:
    context = capture.Context(dict(LEAN), 1e12, str(tmp_path), program=False)
    (tmp_path / "lib").mkdir()
    for number in range(4):
        (tmp_path / "lib" / f"{number}.py").write_bytes(b"x" * 100)
    return capture.Packing(context, str(tmp_path), io.BytesIO())


@pytest.mark.parametrize(
    ("bound", "reason"), [("INTERPRETER_TOTAL", "too-large"), ("INTERPRETER_COUNT", "too-many")]
)
def test_it_is_bounded(packing: Any, monkeypatch: pytest.MonkeyPatch, bound: str, reason: str) -> None:
    monkeypatch.setattr(capture, bound, 3)
    with pytest.raises(capture.GaveUpError) as caught:
        packing.folder("lib")
    assert caught.value.reason == reason


def test_one_file_is_bounded(packing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "INTERPRETER_FILE", 99)
    packing.folder("lib")
    assert {one["reason"] for one in packing.left_out} == {"too-large"}
    assert len(packing.left_out) == 4


def test_the_archive_is_bounded(python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "BUNDLE", 1000)
    monkeypatch.setattr(sys, "base_prefix", str(python.parent.parent))
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(sys, "version_info", (*map(int, MINOR.split(".")), 0))
    context = capture.Context(dict(LEAN), 1e12, str(tmp_path), program=False)
    with pytest.raises(capture.GaveUpError, match=r"it is packed in \d+ bytes"):
        capture.take_interpreter(context)
