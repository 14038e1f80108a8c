"""The commands that the page gives, as they stand there, in the directory of the page."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from reprobuild.image.formats.single_file import write_sif
from reprobuild.image.model import Image
from reprobuild.image.oci.read import read_layout
from reprobuild.lock.model import Workload
from reprobuild.report.html.run import apptainer_commands, docker_commands, podman_commands
from tests.engines.conftest import Tiny
from tests.verify.samples import make_lock

LOCK = make_lock(workload=Workload(command=("sh", "-c", 'echo "$ENTRYPOINT: $REPROBUILD_SEED"'), outputs=()))


@pytest.fixture
def image(tiny: Tiny, tmp_path: Path) -> Image:
    """An output directory with the layout of a small image."""
    shutil.copytree(tiny.layout, tmp_path / "image")
    config, manifest = tiny.digests
    return Image(
        layout="image", reference=tiny.reference, tree="", config=config, manifest=manifest, layers=2
    )


def said(commands: str, folder: Path, env: Mapping[str, str]) -> str:
    done = subprocess.run(
        ["sh", "-ec", commands], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_docker(image: Image, tmp_path: Path) -> None:
    try:
        assert said(docker_commands(LOCK, image), tmp_path, os.environ) == "passed: 7"
    finally:
        subprocess.run(["docker", "rmi", image.reference], capture_output=True, check=False)


def test_podman(image: Image, tmp_path: Path, podman_env: Mapping[str, str]) -> None:
    # A private engine names a directory of logins that is not there, which podman takes for an error.
    env = {name: value for name, value in podman_env.items() if name != "DOCKER_CONFIG"}
    try:
        assert said(podman_commands(LOCK, image), tmp_path, env) == "passed: 7"
    finally:
        subprocess.run(["podman", "rmi", image.reference], env=env, capture_output=True, check=False)


def test_apptainer(image: Image, tmp_path: Path, apptainer_env: Mapping[str, str]) -> None:
    sif = write_sif(read_layout(tmp_path / "image"), tmp_path, "# of the layout\n", apptainer_env)
    whole = msgspec.structs.replace(image, sif=f"sha256:{sif}")
    assert said(apptainer_commands(LOCK, whole), tmp_path, apptainer_env) == "passed: 7"


def test_a_gpu_is_asked_for_where_the_check_says_that_one_is_used(image: Image) -> None:
    assert "--gpus all" in docker_commands(LOCK, image, gpu=True)
    assert "--device nvidia.com/gpu=all" in podman_commands(LOCK, image, gpu=True)
    assert "--nv" in apptainer_commands(LOCK, image, gpu=True)
    assert "reprobuild build reprobuild.lock -o . --format sif" in apptainer_commands(LOCK, image)
