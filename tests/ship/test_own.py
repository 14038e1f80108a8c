"""reprobuild itself as wheels, made of what is installed."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reprobuild.errors import ShipError
from reprobuild.ship import own
from reprobuild.ship.own import own_wheels
from reprobuild.store import hash_file


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return own_wheels(tmp_path_factory.mktemp("own") / "wheels")


def test_pip_installs_them_without_an_index_and_the_program_runs(wheels: list[Path], tmp_path: Path) -> None:
    target = tmp_path / "site"
    argv = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--find-links", wheels[0].parent]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))}
    options = ["--no-compile", "--disable-pip-version-check", "--target", target]
    subprocess.run([*argv, *options, "reprobuild"], env=env, check=True)
    program = f"import sys; sys.path[:0] = [{str(target)!r}]; from reprobuild.cli import main; main()"
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
    assert (target / "reprobuild" / "templates" / "Dockerfile.j2").is_file()
    assert (target / "reprobuild_runtime" / "entrypoint.py").is_file()
    subprocess.run([target / "bin" / "uv", "--version"], check=True, stdout=subprocess.PIPE)


def test_the_same_installation_gives_the_same_wheels(wheels: list[Path], tmp_path: Path) -> None:
    for name in ("click", "reprobuild", "msgspec"):
        again = own._write(tmp_path, importlib.metadata.distribution(name))
        (first,) = (path for path in wheels if path.name == again.name)
        assert hash_file(again) == hash_file(first)
    names = {path.name.partition("-")[0] for path in wheels}
    assert {"reprobuild", "click", "docker", "msgspec", "zstandard", "charset_normalizer"} <= names
    assert "pytest" not in names


def test_what_pip_did_not_install_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Distributions of the system have no list of their files."""

    class Bare:
        name, version, requires, files = "bare", "1", None, None
        entry_points: tuple[Any, ...] = ()

    real = importlib.metadata.distribution
    monkeypatch.setattr(own, "distribution", lambda name: real(name) if name == "reprobuild" else Bare())
    with pytest.raises(ShipError, match="which files bare has is not known") as caught:
        own_wheels(tmp_path / "a")
    assert (
        caught.value.hint
        == "install reprobuild with pip into an environment of its own, and bundle with that"
    )

    def gone(name: str) -> importlib.metadata.Distribution:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(own, "distribution", gone)
    with pytest.raises(ShipError, match="reprobuild is not installed"):
        own_wheels(tmp_path / "b")
