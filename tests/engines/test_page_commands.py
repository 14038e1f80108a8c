"""The run box's commands, as the page prints them, with each engine and a small image."""

from __future__ import annotations

import hashlib
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
from reprobuild.report.html.page import render_html
from reprobuild.report.html.run import make_job
from reprobuild.verify.verdict import Determinism, Verdict, WorkComparison
from reprobuild.verify.workload.conditions import WorkRecord
from tests.engines.conftest import Tiny
from tests.report.commands import EXPECTED, read_commands, run_commands
from tests.verify.samples import make_lock, make_verdict

SEED = 4242
COMMAND = ("sh", "-c", 'echo "$ENTRYPOINT: $REPROBUILD_SEED, $REPROBUILD_PROFILE" >{out}/made.txt')
DIGEST = hashlib.sha256(f"passed: {SEED}, torch\n".encode()).hexdigest()
LOCK = make_lock(workload=Workload(command=COMMAND, outputs=("made.txt",)))
VERDICT = make_verdict(
    work=WorkRecord(command=" ".join(COMMAND), seed=SEED),
    comparisons=(WorkComparison(name="workload output made.txt", verdict="identical", detail=DIGEST),),
)


@pytest.fixture
def image(tiny: Tiny, tmp_path: Path) -> Image:
    """An output directory with the layout of a small image."""
    shutil.copytree(tiny.layout, tmp_path / "image")
    config, manifest = tiny.digests
    return Image(
        layout="image", reference=tiny.reference, tree="", config=config, manifest=manifest, layers=2
    )


def printed(image: Image, title: str, verdict: Verdict = VERDICT) -> str:
    return read_commands(render_html(LOCK, image, verdict), title)


def assert_the_printed_hash(image: Image, title: str, folder: Path, env: Mapping[str, str]) -> None:
    commands = printed(image, title)
    assert EXPECTED.findall(commands) == [DIGEST]
    assert run_commands(commands, folder, env)[-1] == f"{DIGEST}  results/made.txt"


def test_docker(image: Image, tmp_path: Path) -> None:
    try:
        assert_the_printed_hash(image, "Docker", tmp_path, os.environ)
    finally:
        subprocess.run(["docker", "rmi", image.reference], capture_output=True, check=False)


def test_podman(image: Image, tmp_path: Path, podman_env: Mapping[str, str]) -> None:
    # A private engine names a directory of logins that is not there, which podman takes for an error.
    env = {name: value for name, value in podman_env.items() if name != "DOCKER_CONFIG"}
    try:
        assert_the_printed_hash(image, "podman", tmp_path, env)
    finally:
        subprocess.run(["podman", "rmi", image.reference], env=env, capture_output=True, check=False)


def test_apptainer(image: Image, tmp_path: Path, apptainer_env: Mapping[str, str]) -> None:
    sif = write_sif(read_layout(tmp_path / "image"), tmp_path, "# of the layout\n", apptainer_env)
    whole = msgspec.structs.replace(image, sif=f"sha256:{sif}")
    assert_the_printed_hash(whole, "Apptainer", tmp_path, apptainer_env)


def test_a_gpu_is_asked_for_where_the_check_says_that_one_is_used(image: Image) -> None:
    used = msgspec.structs.replace(
        VERDICT, determinism=Determinism(cpu="identical", gpu="identical", collectives="not-applicable")
    )
    for title, option in (
        ("Docker", "--gpus all"), ("podman", "--device nvidia.com/gpu=all"), ("Apptainer", "--nv"),
    ):  # fmt: skip
        assert (option in printed(image, title), option in printed(image, title, used)) == (False, True)
    not_covered = msgspec.structs.replace(
        VERDICT, determinism=Determinism(cpu="identical", gpu="not-covered", collectives="not-covered")
    )
    assert "--gpus all" not in printed(image, "Docker", not_covered)
    assert "--gpus all of docker" in render_html(LOCK, image, not_covered)
    assert "reprobuild build reprobuild.lock -o . --format sif" in printed(image, "Apptainer")


def test_no_hash_is_expected_of_another_command() -> None:
    other = msgspec.structs.replace(VERDICT, work=WorkRecord(command="python other.py", seed=SEED))
    with_variable = msgspec.structs.replace(
        VERDICT, work=WorkRecord(command=" ".join(COMMAND), seed=SEED, variables={"A": "1"})
    )
    pattern = make_lock(workload=Workload(command=COMMAND, outputs=("*.txt", "../made.txt")))
    assert make_job(LOCK, VERDICT).expected
    for lock, verdict in ((LOCK, other), (LOCK, with_variable), (make_lock(), VERDICT), (pattern, VERDICT)):
        job = make_job(lock, verdict)
        assert (job.expected, job.seed) == ((), SEED if lock is pattern else verdict.seed)
