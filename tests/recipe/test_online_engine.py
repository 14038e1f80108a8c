"""The online recipe in real engines, from this machine's sources: how its image differs from the frozen one."""

from __future__ import annotations

import fnmatch
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from reprobuild.compare.images.explain import compare_images
from reprobuild.engines import docker
from reprobuild.engines.model import Task
from reprobuild.image.oci.read import Layout, read_layout
from reprobuild.lock.file import read_lock, write_lock
from reprobuild.lock.model import SealedLock, unseal
from reprobuild.lock.python import Wheel
from reprobuild.lock.sealed import require_sealed
from reprobuild.store.store import Store
from tests.conftest import EXAMPLE, ROOT, Built, reprobuild
from tests.engines.small import WHEELS
from tests.recipe.online_sources import DIRECT, Sources, push_start_image, serve

sys.path.insert(0, str(ROOT / "dev"))
from private_registry import Registry, prepare  # a script of dev/, which is no package

pytestmark = pytest.mark.long  # the recipe of `tests/recipe/test_online.py` in a real engine

REFERENCE = "online:1"
# What shows environment, seed, sources and distributions.
PROGRAM = """
import importlib.metadata as metadata, os, random, pathlib
print(random.random(), os.environ["OMP_NUM_THREADS"], os.environ["QUOTED"])
print(sorted((d.name, d.version) for d in metadata.distributions()))
print("scale=0.4" in pathlib.Path("/src/tinytrain/tinytrain/data.py").read_text())
"""


class Online(NamedTuple):
    """A frozen image, its lock, and the online recipe with the arguments that name this machine's sources."""

    frozen: Path
    lock: SealedLock
    recipe: Path
    arguments: Mapping[str, str]
    started: frozenset[str]


@pytest.fixture(scope="module")
def online(built_example: Built, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Online]:
    """The example's system and source with a few wheels, so that the build is short."""
    store, folder = Store(built_example.store), tmp_path_factory.mktemp("online")
    example = unseal(built_example.lock)
    program = prepare(ROOT / "build" / "engines" / "registry")
    with serve(folder / "www", example, store) as server, Registry(program, folder / "registry") as registry:
        wheels = [wheel for wheel in example.wheels if wheel.role == "build" or wheel.name in WHEELS]
        wheels = [_move(wheel, server.url) if wheel.name == DIRECT else wheel for wheel in wheels]
        quoted = msgspec.structs.replace(
            example.environment[0], name="QUOTED", value="'$HOME' \"{{ x }}\" \\", needs=()
        )
        environment = (*example.environment, quoted)
        lock = msgspec.structs.replace(example, wheels=tuple(wheels), workload=None, environment=environment)
        write_lock(lock, folder / "lock")
        sealed = folder / "frozen" / "reprobuild.lock"
        for words in (
            ("build", folder / "lock", "-o", folder / "frozen"),
            ("render", sealed, "-o", folder, "--online", "--snapshot", EXAMPLE / "snapshot"),
        ):
            done = reprobuild(*words, "--store", store.root)
            assert done.returncode == 0, done.stderr
        text = (folder / "online" / "Dockerfile").read_text()
        Sources.archives = dict(re.findall(r'^ARG (APT_\w+)="(http[^"]+)"', text, re.M))
        image, names = push_start_image(store, registry)
        arguments = {
            "BASE_IMAGE": image, "PIP_INDEX_URL": f"{server.url}/simple/",
            "SOURCE_TINYTRAIN": f"{server.url}/tinytrain.git",
            **{name: f"{server.url}/apt/{name}/" for name in Sources.archives},
        }  # fmt: skip
        yield Online(
            folder / "frozen", require_sealed(read_lock(sealed)), folder / "online", arguments, names
        )


def _move(wheel: Wheel, url: str) -> Wheel:
    """Return a wheel that is at an address of its own, and in no index."""
    file = msgspec.structs.replace(wheel.file, url=f"{url}/direct/{wheel.file.filename}")
    return msgspec.structs.replace(wheel, file=file)


@pytest.fixture(scope="module")
def layout(online: Online, tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """The image by Docker: the Dockerfile comes on standard input, so that it has no other file."""
    target = tmp_path_factory.mktemp("built") / "layout"
    words = [word for pair in online.arguments.items() for word in ("--build-arg", "=".join(pair))]
    output = f"type=oci,tar=false,dest={target},name=docker.io/library/{REFERENCE},compression=uncompressed"
    with (online.recipe / "Dockerfile").open("rb") as text:
        done = subprocess.run(
            ["docker", "buildx", "build", "--network=host", "--provenance=false", *words, "--output", output, "-"],
            stdin=text, capture_output=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    return read_layout(target)


def documented() -> list[tuple[str, ...]]:
    """Return the patterns of paths in each row of the page's table of differences."""
    page = (ROOT / "docs" / "online.md").read_text().split("## Differences from the frozen image")[1]
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    return [tuple(re.findall("`/([^`]+)`", row)) for row in rows]


def test_only_the_documented_paths_differ(online: Online, layout: Layout) -> None:
    found = compare_images(str(online.frozen), str(layout.folder), os.environ, lambda text: None)
    further = online.started - online.lock.base.installed.keys()  # packages of the start image alone
    rows = documented()
    met = set[int]()
    unexplained = []
    for change in found.files:
        numbers = [n for n, row in enumerate(rows) if any(fnmatch.fnmatch(change.path, part) for part in row)]
        met.update(numbers)
        if not numbers and not any(f"/{name}" in change.path for name in further):
            unexplained.append((change.kind, change.path, change.detail))
    assert unexplained == []
    assert met == set(range(len(rows)))
    assert {change.kind for change in found.changes} >= {"label", "config", "layers", "times"}
    assert "runtime" not in {change.kind for change in found.changes}


@pytest.fixture(scope="module")
def expected(online: Online) -> str:
    """What the frozen image prints."""
    done = reprobuild("run", online.frozen, "--seed", "7", "--", "python", "-c", PROGRAM)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_docker_runs_it_like_the_frozen_image(online: Online, layout: Layout, expected: str) -> None:
    docker.load(layout.folder, REFERENCE, layout.digests, os.environ)
    task = Task(arguments=("python", "-c", PROGRAM), environment={"REPROBUILD_SEED": "7"})
    done = docker.run(REFERENCE, task, os.environ)
    assert done.code == 0, done.stderr.decode()
    assert done.stdout.decode() == expected


@pytest.mark.long
def test_apptainer_builds_and_runs_the_definition(
    online: Online, apptainer_env: Mapping[str, str], expected: str, tmp_path: Path
) -> None:
    words = [word for pair in online.arguments.items() for word in ("--build-arg", "=".join(pair))]
    definition = online.recipe / "Apptainer.def"
    built = subprocess.run(
        ["apptainer", "build", "--sandbox", "--no-https", *words, tmp_path / "image", definition],
        env=apptainer_env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr[-3000:]
    command = ["apptainer", "run", "--containall", "--env", "REPROBUILD_SEED=7", tmp_path / "image"]
    done = subprocess.run(
        [*command, "python", "-c", PROGRAM], env=apptainer_env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == expected
