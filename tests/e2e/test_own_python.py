"""An environment on a Python that the distribution does not have: a standalone build, the same from every builder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from reprobuild.image.oci.read import layout_tree, read_layout
from reprobuild.image.tree_digest import tree_digest
from reprobuild.output.directory import read_image
from reprobuild.store.store import Store
from tests.capture.repositories import git, new_origin
from tests.conftest import reprobuild
from tests.image.made import make_wheel
from tests.interpreters import MINOR, SYSCONFIG, VERSION, make_build, needed_packages, offer
from tests.recipe.test_engine import build, differences

# A backend that needs nothing: https://peps.python.org/pep-0660/
BACKEND = b"""\
import os, zipfile
def build_editable(folder, settings=None, metadata=None):
    name, info = "project-2.0-py3-none-any.whl", "project-2.0.dist-info"
    files = {
        "project.pth": os.getcwd() + "\\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\\nName: project\\nVersion: 2.0\\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\\nGenerator: made\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{file},,\\n" for file in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(os.path.join(folder, name), "w") as archive:
        for file, text in files.items():
            archive.writestr(zipfile.ZipInfo(file), text)
    return name
"""
PROJECT = b'[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'


class Results(NamedTuple):
    """An output directory, and the environment that it was made in."""

    out: Path
    env: Mapping[str, str]
    said: str


@pytest.fixture(scope="module")
def results(test_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("own")
    clone = new_origin(
        folder,
        {"pyproject.toml": PROJECT, "backend.py": BACKEND, "project.py": b"def answer():\n    return 42\n"},
    )
    commit = git(clone, "rev-parse", "HEAD").decode().strip()
    snapshot, wheels = folder / "snapshot", folder / "wheels"
    snapshot.mkdir()
    wheels.mkdir()
    make_wheel(wheels / "one-1.0-py3-none-any.whl", {"one.py": b"ONE = 1\n"})
    freeze = f"one==1.0\n-e git+{(folder / 'origin.git').as_uri()}@{commit}#egg=project\n"
    (snapshot / "requirements.txt").write_text(freeze)
    (snapshot / "apt-packages.txt").write_text("Listing...\n" + "\n".join(needed_packages()) + "\n")
    config = f"python/lib/python{MINOR}/_sysconfigdata__linux_x86_64-linux-gnu.py"
    archive = make_build(folder / "python.tar.gz", more={config: SYSCONFIG})
    variables = offer(folder / "mirror", {VERSION: archive})
    env = {**os.environ, **variables, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": wheels.as_uri()}
    done = reprobuild(
        "from-snapshot", snapshot, "-o", folder / "out", "--store", test_store, "--python", VERSION,
        "--source", f"project={folder / 'origin.git'}", env=env,
    )  # fmt: skip
    # Without torch nothing shows that a drift would be seen.
    assert done.returncode == 9, done.stderr + done.stdout
    return Results(folder / "out", env, done.stdout)


@pytest.mark.long
def test_the_image_runs_with_the_build(results: Results) -> None:
    lock, _ = read_image(results.out)
    assert lock.interpreter.kind == "standalone"
    assert lock.realised.interpreter
    assert not [deb.name for deb in lock.base.packages if deb.name.startswith("python3")]
    assert "round trip: explained" in results.said
    code = "import sys, one, project; print(sys.base_prefix, sys.prefix, one.ONE, project.answer(), project.__file__)"
    ran = reprobuild("run", results.out, "--seed", "7", "--", "python", "-c", code, env=results.env)
    assert ran.stdout == "/opt/python /opt/env 1 42 /src/project/project.py\n", ran.stderr
    code = "import random, json; print(json.__cached__, random.random())"
    ran = reprobuild("run", results.out, "--seed", "7", "--", "python", "-c", code, env=results.env)
    cached, drawn = ran.stdout.split()
    assert cached.startswith(f"/opt/python/lib/python{MINOR}/json/__pycache__/")
    again = reprobuild("run", results.out, "--seed", "7", "--", "python", "-c", code, env=results.env)
    assert again.stdout.split()[1] == drawn


@pytest.mark.long
def test_docker_makes_the_same_tree_of_the_recipe(results: Results, tmp_path: Path) -> None:
    _, image = read_image(results.out)
    other = build(results.out, tmp_path / "layout", "docker.io/library/own-python")
    tree, native = layout_tree(other), layout_tree(read_layout(results.out / "image"))
    assert differences(native, tree) == []
    assert tree_digest(tree, other.runtime) == image.tree


@pytest.mark.long
def test_the_build_is_fetched_again_from_the_mirror(results: Results, test_store: Path) -> None:
    lock, _ = read_image(results.out)
    assert lock.interpreter.file
    assert lock.interpreter.file.url.startswith("https://")
    sha256 = lock.interpreter.file.sha256
    Store(test_store).blob(sha256).unlink()
    done = reprobuild("fetch", results.out / "reprobuild.lock", "--store", test_store, env=results.env)
    assert done.returncode == 0, done.stderr
    assert Store(test_store).has(sha256)
