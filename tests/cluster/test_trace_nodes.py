"""`cluster trace` on a real Slurm of three nodes, with a real engine; the planted node computes otherwise."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.planted import SETTLED, Cluster, prepare
from tests.conftest import PROGRAM, Built, reprobuild
from tests.determinism.planted import CLEAN_FOLDER

REFUSED = "no container engine answers (tried apptainer)"

pytestmark = pytest.mark.long  # tests/cluster/test_slurm.py starts a job of nodes, too


@pytest.fixture(scope="module")
def folder(
    built_example: Built, apptainer_env: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Return a directory with the answers of three runs on one cluster."""
    prepare()
    folder = tmp_path_factory.mktemp("traced")
    cluster = Cluster(
        folder, built_example.copy(folder / "out"), built_example.lock, built_example.store, apptainer_env
    )
    words = [str(cluster.out), "--store", str(cluster.store), "--engine", "apptainer", "--timeout", "300"]
    words += ["-v", f"{CLEAN_FOLDER}:/scripts:ro", "--nodes", "3"]
    check = shlex.join([*PROGRAM, "cluster", "trace", *words])
    command = "-- python /scripts/dropout.py"
    cluster.run(
        [],
        f"""
        {check} {command} > same.txt 2> same.log; echo $? > same.code
        {SETTLED}
        echo odd > plan/n2; echo refuse > plan/n3
        {check} --profile strict --json {command} > odd.json 2> odd.log; echo $? > odd.code
        {SETTLED}
        {check} --env NOT_SET_ANYWHERE {command} 2> options.log; echo $? > options.code
        squeue --noheader > left
        """,
    )
    return folder


def _read(folder: Path, name: str) -> str:
    return (folder / name).read_text()


def test_equal_nodes_record_the_same(folder: Path) -> None:
    assert _read(folder, "same.code") == "0\n", _read(folder, "same.log")
    text = _read(folder, "same.txt")
    assert "  3 nodes, with the same records, 11 steps: n1, n2, n3\n" in text
    assert text.endswith("cluster: same; 3 of 3 nodes recorded the command\n")


def test_the_node_whose_arithmetic_differs_is_named_with_the_step(folder: Path) -> None:
    assert _read(folder, "odd.code") == "8\n", _read(folder, "odd.log")
    document: Any = json.loads(_read(folder, "odd.json"))
    assert document["verdict"] == "differ"
    (group,) = document["groups"]
    assert (group["nodes"], group["has_majority"]) == (["n1", "n2"], False)
    (odd,) = group["odd"]
    assert (len(odd["nodes"]), odd["step"], odd["process"]) == (1, 0, "main")
    assert odd["record"] in ("the loss", "gradients 0")
    (silent,) = document["silent"]
    assert (silent["node"], silent["kind"]) == ("n3", "refused")
    assert REFUSED in silent["why"]


def test_a_mistake_is_told_before_a_job_is_asked_for(folder: Path) -> None:
    assert _read(folder, "options.code") == "2\n"
    assert "--env NOT_SET_ANYWHERE: it is not set here" in _read(folder, "options.log")
    assert _read(folder, "left") == ""


def test_other_schedulers_start_the_workers_themselves(built_example: Built, tmp_path: Path) -> None:
    words = ("--engine", "builtin", "--store", built_example.store, "-v", f"{CLEAN_FOLDER}:/scripts:ro")
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "main.steps").write_text("kept")
    (tmp_path / "n2.trace").symlink_to(tmp_path / "theirs")
    for node, seed in (("n1", "42"), ("n2", "42"), ("n3", "8")):
        done = reprobuild(
            "cluster", "trace-worker", built_example.out, "--output", tmp_path, "--seed", seed, *words,
            "--", "python", "/scripts/dropout.py", env={**os.environ, "SLURMD_NODENAME": node},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"{node}: 11 steps recorded\n"
    assert (tmp_path / "theirs" / "main.steps").read_text() == "kept"
    done = reprobuild("cluster", "gather-traces", tmp_path)
    assert done.returncode == 9, done.stdout
    assert "n3: left no records: its seed is 8, and that of others 42" in done.stdout
    assert "  2 nodes, with the same records, 11 steps: n1, n2\n" in done.stdout
    failing = ("cluster", "trace-worker", built_example.out, "--output", tmp_path, *words, "--")
    env = {**os.environ, "SLURMD_NODENAME": "n2"}
    done = reprobuild(*failing, "python", "/scripts/plain_training.py", env=env)
    assert done.returncode == 9
    assert "the command has no steps of PyTorch" in (tmp_path / "n2.error").read_text()
    assert not (tmp_path / "n2.trace").exists()
    done = reprobuild("cluster", "gather-traces", tmp_path)
    assert "n2: gave no answer: the command has no steps of PyTorch" in done.stdout
