"""reprobuild itself as wheels, made of what is installed."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from reprobuild.distribute import own_wheels as own
from reprobuild.distribute.own_wheels import write_own_wheels
from reprobuild.errors import DistributionError
from reprobuild_portable.hashing import hash_file
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_own_wheels(tmp_path_factory.mktemp("own") / "wheels")


def test_pip_installs_them_without_an_index_and_the_program_runs(wheels: list[Path], tmp_path: Path) -> None:
    target = tmp_path / "site"
    argv = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--find-links", wheels[0].parent]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))}
    options = ["--no-compile", "--disable-pip-version-check", "--target", target]
    subprocess.run([*argv, *options, "reprobuild"], env=env, check=True)
    program = f"import sys; sys.path[:0] = [{str(target)!r}]; from reprobuild.cli.main import main; main()"
    for arguments, wanted in (
        (["--version"], b"reprobuild, version "),
        (["bundle", "--help"], b"--split SIZE"),
    ):
        said = subprocess.run(
            [sys.executable, "-I", "-S", "-c", program, *arguments],
            capture_output=True,
            check=True,
            cwd=tmp_path,
        )
        assert wanted in said.stdout
    for name in ("Dockerfile.j2", "online/Dockerfile.j2"):
        assert (target / "reprobuild" / "recipe" / "templates" / name).is_file()
    assert (target / "reprobuild_runtime" / "entrypoint.py").is_file()
    assert (target / "reprobuild_portable" / "__init__.py").is_file()
    subprocess.run([target / "bin" / "uv", "--version"], check=True, stdout=subprocess.PIPE)
    assert (target / "bin" / "readelf.py").read_text().splitlines()[0] == f"#!{sys.executable}"


def test_another_minor_version_of_python_is_refused_as_the_guide_says(
    wheels: list[Path], tmp_path: Path
) -> None:
    guide = (ROOT / "docs" / "guides" / "air-gapped.md").read_text()
    assert "the `X.Y` of the Python that ran `reprobuild bundle`" in guide
    (message,) = re.findall(r"pip stops with `(.*?)`", guide)
    argv = [sys.executable, "-m", "pip", "install", "--no-index", "--find-links", wheels[0].parent]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))}
    minor = sys.version_info.minor
    codes = {}
    for other in (minor, minor + 1):
        version = ["--only-binary", ":all:", "--python-version", f"3.{other}"]
        options = [*version, "--dry-run", "--ignore-installed", "--target", tmp_path / "site"]
        done = subprocess.run([*argv, *options, "reprobuild"], env=env, capture_output=True, text=True)
        codes[other] = done.returncode
        assert (message in done.stderr) == (other != minor), done.stderr
    assert codes == {minor: 0, minor + 1: 1}
    assert f"-cp3{minor}-" in "".join(path.name for path in wheels)


def test_the_same_installation_gives_the_same_wheels(wheels: list[Path], tmp_path: Path) -> None:
    for name in ("click", "reprobuild", "msgspec"):
        again = own._write_wheel(tmp_path, importlib.metadata.distribution(name))
        (first,) = (path for path in wheels if path.name == again.name)
        assert hash_file(again) == hash_file(first)
    names = {path.name.partition("-")[0] for path in wheels}
    assert {"reprobuild", "click", "docker", "msgspec", "zstandard", "charset_normalizer"} <= names
    assert "pytest" not in names


@pytest.mark.parametrize(
    ("installed", "packed"),
    [
        (b"#!/home/ann/venv/bin/python\nprint(1)\n", b"#!python\nprint(1)\n"),
        (b"#!/home/ann/venv/bin/python3.11 -E\r\nx", b"#!python -E\r\nx"),
        (b"#!/home/ann/my venv/bin/pypy3", b"#!python"),
        (
            b"#!/bin/sh\n'''exec' \"/home/ann/my venv/bin/python3\" \"$0\" \"$@\"\n' '''\nprint(1)\n",
            b"#!python\nprint(1)\n",
        ),
        (b"#!/bin/sh\n'''exec' /home/ann/bin/python \"$0\" \"$@\"\n' '''\n", b"#!python\n"),
        (b"#!/usr/bin/env python3\n", b"#!/usr/bin/env python3\n"),
        (b"#!/bin/sh\nexec /opt/x/python\n", b"#!/bin/sh\nexec /opt/x/python\n"),
        (b"print(1)\n#!/usr/bin/python\n", b"print(1)\n#!/usr/bin/python\n"),
        (b"\x7fELF", b"\x7fELF"),
        (b"", b""),
    ],
)
def test_a_script_does_not_tell_where_it_was_installed(installed: bytes, packed: bytes) -> None:
    """https://packaging.python.org/en/latest/specifications/binary-distribution-format/: `#!python` is rewritten."""
    assert own._restore_shebang(installed) == packed


def test_no_script_of_ours_tells_where_python_is(wheels: list[Path]) -> None:
    firsts = {}
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if ".data/scripts/" in name]
            firsts |= {name.rpartition("/")[2]: archive.read(name).split(b"\n")[0][:20] for name in names}
    assert firsts["readelf.py"] == b"#!python"
    assert firsts["uv"].startswith(b"\x7fELF")
    assert not [name for name, line in firsts.items() if line.startswith(b"#!") and line != b"#!python"]


def test_what_pip_did_not_install_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Distributions of the system have no list of their files."""

    class Bare:
        name, version, requires, files = "bare", "1", None, None
        entry_points: tuple[Any, ...] = ()

    real = importlib.metadata.distribution
    monkeypatch.setattr(own, "distribution", lambda name: real(name) if name == "reprobuild" else Bare())
    with pytest.raises(DistributionError, match="which files bare has is not known") as caught:
        write_own_wheels(tmp_path / "a")
    assert (
        caught.value.hint
        == "install reprobuild with pip into an environment of its own, and bundle with that"
    )

    def gone(name: str) -> importlib.metadata.Distribution:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(own, "distribution", gone)
    with pytest.raises(DistributionError, match="reprobuild is not installed"):
        write_own_wheels(tmp_path / "b")
