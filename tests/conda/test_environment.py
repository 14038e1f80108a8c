"""A conda environment, with pip's part, becomes an image: locked from a channel, linked, built, and compared."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from reprobuild.output.directory import read_image
from tests.conda.python_package import python_package
from tests.conda_packages import PLACEHOLDER, Link, Spec, index_channel, write_package
from tests.conftest import reprobuild

ZED = Spec(
    name="libzed", version="1.2.13", build="h5eee18b_0", ending=".tar.bz2", depends=("__glibc >=2.17,<3.0.a0",),
    files={
        "lib/libzed.so.1": f"{PLACEHOLDER}/share\0".encode(), "lib/libzed.so": Link("libzed.so.1"),
        "etc/conda/activate.d/libzed.sh": b'export ZED_DATA="$CONDA_PREFIX/share/zed"\n',
    },
    placeholders={"lib/libzed.so.1": "binary"},
)  # fmt: skip
NALA = Spec(
    name="nala", version="2.0", build="pyhd8ed1ab_0", subdir="noarch", noarch="python", depends=("python >=3.8",),
    entry_points=("nala = nala:main",),
    files={
        "site-packages/nala/__init__.py": b"def main():\n    print('nala of conda')\n",
        "site-packages/nala-2.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: nala\nVersion: 2.0\n",
        "site-packages/nala-2.0.dist-info/INSTALLER": b"conda",
        "site-packages/nala-2.0.dist-info/direct_url.json": (
            b'{"dir_info": {}, "url": "file:///home/conda/feedstock_root/build_artifacts/nala_1700000000/work"}'
        ),
    },
)  # fmt: skip
OLD = Spec(
    name="packaging", version="21.0", build="pyhd3eb1b0_0", subdir="noarch", noarch="python",
    files={
        "site-packages/packaging/__init__.py": b"__version__ = '21.0 of conda'\n",
        "site-packages/packaging/old.py": b"",
        "site-packages/packaging-21.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: packaging\nVersion: 21.0\n",
        "site-packages/packaging-21.0.dist-info/RECORD": (
            b"packaging/__init__.py,,\npackaging/old.py,,\npackaging-21.0.dist-info/METADATA,,\n"
            b"packaging-21.0.dist-info/RECORD,,\n"
        ),
    },
)  # fmt: skip
SCRIPTED = Spec(
    name="scripted",
    files={"bin/.scripted-post-link.sh": b'echo "$PKG_NAME" > "$PREFIX/share/linked"\n', "share/x": b""},
)


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A channel on the disk with the packages."""
    folder = tmp_path_factory.mktemp("channel") / "main"
    for spec in (python_package(), ZED, NALA, OLD, SCRIPTED):
        write_package(spec, folder)
    index_channel(folder)
    return folder


def explicit(channel: Path) -> str:
    """Return what `conda list --explicit --md5` prints, as if the channel were conda-forge."""
    rows = []
    for path in sorted((*channel.rglob("*.conda"), *channel.rglob("*.tar.bz2"))):
        md5 = hashlib.md5(path.read_bytes()).hexdigest()
        rows.append(f"https://conda.anaconda.org/conda-forge/{path.parent.name}/{path.name}#{md5}")
    return "# platform: linux-64\n@EXPLICIT\n" + "\n".join(rows) + "\n"


@pytest.fixture(scope="module")
def made(channel: Path, test_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output directory of the environment."""
    folder = tmp_path_factory.mktemp("conda")
    snapshot = folder / "snapshot"
    snapshot.mkdir()
    (snapshot / "conda-explicit.txt").write_text(explicit(channel))
    (snapshot / "requirements.txt").write_text(
        "nala @ file:///home/conda/feedstock_root/build_artifacts/nala_1700000000/work\npackaging==24.1\n"
    )
    (snapshot / "env.txt").write_text(
        "CONDA_PREFIX=/home/u/miniconda3/envs/x\nCONDA_DEFAULT_ENV=x\nZED_DATA=/home/u/miniconda3/envs/x/share/zed\n"
    )
    (folder / ".condarc").write_text(f"custom_channels:\n  conda-forge: {channel.parent.as_uri()}\n")
    (channel.parent / "conda-forge").symlink_to("main")
    env = {**os.environ, "HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
    done = reprobuild(
        "from-snapshot", snapshot, "-o", folder / "out", "--store", test_store, "--base", "debian/bookworm",
        "--accept", "no-apt-list", "--no-probes", env=env,
    )  # fmt: skip
    assert done.returncode == 9, done.stderr + done.stdout  # determinism was not asked for
    return folder / "out"


def test_the_image_has_the_captured_packages_and_variables(made: Path) -> None:
    lock, _ = read_image(made)
    assert lock.interpreter.kind == "conda"
    assert [one.name for one in lock.conda] == ["libzed", "nala", "packaging", "python", "scripted"]
    assert [wheel.name for wheel in lock.wheels] == ["packaging"]
    assert {one.name: one.value for one in lock.environment} == {
        "CONDA_PREFIX": "/opt/env", "ZED_DATA": "/opt/env/share/zed",
    }  # fmt: skip
    assert not any(name.startswith("python3") for name in lock.base.installed)
    verdict = json.loads((made / "verdict.json").read_bytes())
    assert verdict["round_trip"] == "explained"
    told = {(one["captured"], one["code"]) for one in verdict["differences"]}
    assert told == {
        ("apt-packages.txt", "replaced-version"), ("packaging", "base-provided"), ("CONDA_PREFIX", "path-rewritten"),
        ("CONDA_DEFAULT_ENV", "path-rewritten"), ("ZED_DATA", "path-rewritten"),
    }  # fmt: skip


def test_it_runs(made: Path) -> None:
    def run(*command: str) -> str:
        done = reprobuild("run", made, "--seed", "7", "--", *command)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run("nala") == "nala of conda\n"
    assert run("cat", "/opt/env/share/linked") == "scripted\n"
    assert run("python", "-c", "import packaging; print(packaging.__version__)") == "24.1\n"


def test_it_is_built_again_from_the_store_alone(made: Path, test_store: Path, tmp_path: Path) -> None:
    done = reprobuild(
        "build", made / "reprobuild.lock", "-o", tmp_path / "out", "--store", test_store, "--offline"
    )
    assert done.returncode == 0, done.stderr
    assert read_image(tmp_path / "out")[1].tree == read_image(made)[1].tree


@pytest.mark.long
def test_a_file_that_a_person_wrote_becomes_a_verified_image(
    channel: Path, test_store: Path, tmp_path: Path
) -> None:
    path = tmp_path / "environment.yml"
    path.write_text("channels: [conda-forge]\ndependencies:\n- python\n- nala\n- pip: [packaging==24.1]\n")
    (tmp_path / ".condarc").write_text(f"custom_channels:\n  conda-forge: {channel.parent.as_uri()}\n")
    for spec in (
        Spec(name="pip", version="22.0", subdir="noarch", noarch="generic", files={"share/pip": b""}),
    ):
        write_package(spec, channel)
    index_channel(channel)
    env = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = reprobuild(
        "from-snapshot", path, "-o", tmp_path / "out", "--store", test_store, "--base", "debian/bookworm",
        "--accept", "no-apt-list", "--as-of", "2024-01-01", "--no-probes", env=env,
    )  # fmt: skip
    assert done.returncode == 9, done.stderr + done.stdout  # determinism was not asked for
    lock, _ = read_image(tmp_path / "out")
    assert [one.name for one in lock.conda] == ["libzed", "nala", "pip", "python"]
    verdict = json.loads((tmp_path / "out" / "verdict.json").read_bytes())
    assert verdict["round_trip"] == "explained"
    assert {one["code"] for one in verdict["differences"] if one["captured"] == "nala"} == {"solved-version"}
    ran = reprobuild("run", tmp_path / "out", "--seed", "7", "--", "nala")
    assert (ran.returncode, ran.stdout) == (0, "nala of conda\n"), ran.stderr
