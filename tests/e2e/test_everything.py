"""One environment of every kind of line: conda, Debian's, what compiles, a direct address, repositories, editables."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from reprobuild.output.directory import read_image
from reprobuild_portable.hashing import hash_file
from tests.conda.python_package import MINOR, python_package
from tests.conda.test_environment import NALA, ZED, explicit
from tests.conda_packages import index_channel, write_package
from tests.conftest import EXAMPLE, Built, reprobuild
from tests.image.made import make_wheel
from tests.realise.projects import EXTENSION
from tests.resolve.repositories import Project
from tests.resolve.served import Served

DIRECT = "direct-1.0-py3-none-any.whl"
COMPILED = (
    b"from setuptools import Extension, setup\nsetup(ext_modules=[Extension('fast._c', ['fast/_c.c'])])\n"
)


def pyproject(name: str) -> bytes:
    return (
        f'[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        f'[project]\nname = "{name}"\nversion = "1.0"\n[tool.setuptools]\npackages = ["{name}"]\n'
    ).encode()


def project(name: str, folder: str = "") -> dict[str, bytes]:
    """Return the files of a project with one package."""
    return {
        f"{folder}pyproject.toml": pyproject(name),
        f"{folder}{name}/__init__.py": f"NAME = '{name}'\n".encode(),
    }


@pytest.fixture
def repositories(tmp_path: Path) -> dict[str, Project]:
    """Five repositories; one has two projects, and one is compiled."""
    files = {
        "alpha": project("alpha"),
        "fast": {**project("fast"), "setup.py": COMPILED, "fast/_c.c": EXTENSION},
        "mono": {**project("left", "left/"), **project("right", "right/")},
        "first": project("first"),
        "second": project("second", "python/"),
    }
    return {name: Project(tmp_path / "git" / name, found) for name, found in files.items()}


def sources(repositories: dict[str, Project]) -> list[str]:
    """Return options that name the repositories: a snapshot opens none of this machine by itself."""
    places = {name: name for name in ("alpha", "fast", "first", "second")} | {"left": "mono", "right": "mono"}
    return [word for name in places for word in ("--source", f"{name}={repositories[places[name]].path}")]


def freeze(repositories: dict[str, Project], direct: str) -> str:
    """Return what pip would print: in conda's environment, which sees Debian's distributions, too."""

    def place(name: str) -> str:
        return f"git+file://{repositories[name].path}@{repositories[name].head}"

    return "".join(
        f"{line}\n"
        for line in (
            f"-e {place('alpha')}#egg=alpha",
            direct,
            "einops==0.8.2",
            "nala @ file:///home/conda/feedstock_root/build_artifacts/nala_1700000000/work",
            "python-apt==2.6.0",
            f"-e {place('fast')}#egg=fast",
            f"first @ {place('first')}",
            f"-e {place('mono')}#egg=left&subdirectory=left",
            f"-e {place('mono')}#egg=right&subdirectory=right",
            f"second @ {place('second')}#subdirectory=python",
        )
    )


def conda(folder: Path) -> tuple[str, Path]:
    """Return what `conda list --explicit --md5` prints, and the home of a user whose conda-forge is a directory."""
    channel = folder / "channels" / "conda-forge"
    for spec in (python_package(), ZED, NALA):
        write_package(spec, channel)
    index_channel(channel)
    home = folder / "home"
    home.mkdir()
    (home / ".condarc").write_text(f"custom_channels:\n  conda-forge: {channel.parent.as_uri()}\n")
    return explicit(channel), home


def capture(folder: Path, requirements: str, packages: str) -> None:
    """Write the snapshot, and what has to be decided: conda's Python comes here without its headers."""
    folder.mkdir()
    apt = (EXAMPLE / "snapshot" / "apt-packages.txt").read_text()
    (folder / "apt-packages.txt").write_text(apt + "python3-apt/stable,now 2.6.0 amd64 [installed]\n")
    (folder / "requirements.txt").write_text(requirements)
    (folder / "conda-explicit.txt").write_text(packages)
    (folder / "reprobuild.yaml").write_text(
        f"build:\n  fast:\n    packages: [libpython{MINOR}-dev]\n    variables: {{CPATH: /usr/include/python{MINOR}}}\n"
    )


@pytest.mark.long
def test_all_kinds_of_lines_at_once(
    built_example: Built, repositories: dict[str, Project], tmp_path: Path
) -> None:
    """Fetched once, built when all servers and repositories are gone, and what is in the image is what was captured."""
    snapshot, lock, out, store = (
        tmp_path / "snapshot",
        tmp_path / "x.lock",
        tmp_path / "out",
        built_example.store,
    )
    packages, home = conda(tmp_path)
    wheel = make_wheel(tmp_path / DIRECT, {"direct/__init__.py": b""})
    env = {
        **os.environ, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", "HOME": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
    }  # fmt: skip
    with Served() as server:
        url = server.give(f"/{DIRECT}", wheel.read_bytes())
        lines = freeze(repositories, f"direct @ {url}#sha256={hash_file(wheel)}")
        capture(snapshot, lines, packages)
        locked = reprobuild(
            "lock",
            snapshot,
            "--decisions",
            snapshot / "reprobuild.yaml",
            "-o",
            lock,
            "--store",
            store,
            "--accept",
            "withdrawn",
            *sources(repositories),
            env=env,
        )
        assert locked.returncode == 0, locked.stderr
        fetched = reprobuild("fetch", lock, "--store", store, env=env)
        assert fetched.returncode == 0, fetched.stderr
    shutil.rmtree(tmp_path / "git")
    shutil.rmtree(tmp_path / "channels")
    built = reprobuild("build", lock, "-o", out, "--store", store, "--offline", env=env)
    assert built.returncode == 0, built.stderr
    sealed, _ = read_image(out)
    assert [one.name for one in sealed.conda] == ["libzed", "nala", "python"]
    assert {one.name for one in sealed.sources} == {"alpha", "fast", "left", "right", "first", "second"}
    assert [one.name for one in sealed.sources if one.building.compiles] == ["fast"]
    (apt,) = (one for one in sealed.rulings if one.subject == "python-apt")
    assert (apt.outcome, "python3-apt 2.6.0" in apt.reason) == ("in base", True)
    checked = reprobuild("verify", out, "--no-probes", "--store", store, env=env)
    assert checked.returncode == 9, checked.stderr
    verdict = json.loads((out / "verdict.json").read_bytes())
    assert verdict["round_trip"] in ("exact", "explained"), verdict["differences"]
    code = "import alpha, direct, einops, fast._c, first, left, nala, right, second; print(fast._c.answer())"
    ran = reprobuild("run", out, "--seed", "1", "--", "python", "-c", code)
    assert (ran.returncode, ran.stdout) == (0, "42\n"), ran.stderr
