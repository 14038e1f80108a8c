"""`run` under a real Slurm of three nodes: Apptainer in an allocation without Docker, and torchrun in the image."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.conftest import PROGRAM, ROOT, Built

SLURM = (sys.executable, str(ROOT / "dev" / "private_slurm.py"), "run")
PACKAGES = ROOT / "build" / "engines" / "slurm"
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
DRAW = """
import json, os, random, sys
import numpy as np
said = {name: os.environ.get(name) for name in (
    "REPROBUILD_SEED", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NODEID", "NCCL_SOCKET_IFNAME", "PRIVATE",
    "HF_TOKEN", "OMP_NUM_THREADS")}
said |= {"python": random.random(), "numpy": float(np.random.random())}
said["stream"] = float(np.random.default_rng().random())
open(f"/out/{sys.argv[1]}.{os.environ['SLURM_PROCID']}", "w").write(json.dumps(said))
sys.exit(int(os.environ["SLURM_PROCID"]))
"""
TRAIN = """
import json, os, random
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([float(dist.get_rank() + 1)]); dist.all_reduce(total)
said = {"seed": torch.initial_seed(), "sum": total.item(), "world": dist.get_world_size(), "python": random.random()}
open(f"/out/train.{dist.get_rank()}", "w").write(json.dumps(said))
dist.destroy_process_group()
"""


@dataclass(frozen=True)
class Jobs:
    """What the ranks of each job wrote, by job and rank, and what the whole said."""

    ranks: Mapping[str, list[dict[str, Any]]]
    stdout: str
    stderr: str


@pytest.fixture(scope="module")
def jobs(
    built_example: Built, apptainer_env: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Jobs:
    """Four jobs on one cluster: with a seed, again, without one, and torchrun on two nodes."""
    folder = tmp_path_factory.mktemp("srun")
    folder.chmod(0o755)
    (folder / "draw.py").write_text(DRAW)
    (folder / "train.py").write_text(TRAIN)
    written = folder / "written"
    written.mkdir()

    def line(srun: str, name: str, *words: str, options: str = "") -> str:
        run = [*PROGRAM, "run", str(built_example.out), "-v", f"{folder}:/work:ro", "-v", f"{written}:/out"]
        return f"srun {srun} {shlex.join(run)} {options} -- {shlex.join(words)} </dev/null || echo {name} gave $?"

    torchrun = (
        "exec torchrun --nnodes 2 --nproc-per-node 1 --node-rank $SLURM_NODEID --rdzv-id one "
        "--master-addr 127.0.0.1 --master-port 29511 /work/train.py"
    )
    secret = "--secret HF_TOKEN"
    again = [
        *PROGRAM, "run", built_example.out, "--srun-args", "-N 3 --label", "--seed", "7", "-v", f"{folder}:/work:ro",
        "-v", f"{written}:/out", *secret.split(), "--", "python", "/work/draw.py", "again",
    ]  # fmt: skip
    script = "\n".join(
        [
            "salloc -N 3 bash -eu <<'INSIDE'",
            line("-n 3", "first", "python", "/work/draw.py", "first", options=f"--seed 7 {secret}"),
            line("-n 3", "drawn", "python", "/work/draw.py", "drawn"),
            line("-N 2 -n 2", "train", "sh", "-c", torchrun, options="--seed 7"),
            "INSIDE",
            f"{shlex.join(map(str, again))} || echo again gave $?",
        ]
    )  # fmt: skip
    env = {
        **apptainer_env, "PYTHONPATH": str(ROOT), "NCCL_SOCKET_IFNAME": "ib7", "PRIVATE": "x", "HF_TOKEN": TOKEN,
        "DOCKER_HOST": "unix:///nonexistent", "OMP_NUM_THREADS": "31",
    }  # fmt: skip
    argv = [*SLURM, "--folder", str(PACKAGES), "--", "bash", "-euc", script]
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    found = {
        name: [json.loads(path.read_text()) for path in sorted(written.glob(f"{name}.*"))]
        for name in ("first", "drawn", "train", "again")
    }
    return Jobs(found, done.stdout, done.stderr)


@pytest.mark.long
def test_every_rank_has_its_rank_the_world_and_a_stream_of_its_own(jobs: Jobs) -> None:
    ranks = jobs.ranks["first"]
    assert [one["SLURM_PROCID"] for one in ranks] == ["0", "1", "2"]
    assert [one["SLURM_NODEID"] for one in ranks] == ["0", "1", "2"]
    assert {one["SLURM_STEP_NUM_TASKS"] for one in ranks} == {"3"}
    assert {one["REPROBUILD_SEED"] for one in ranks} == {"7"}
    for name in ("python", "numpy", "stream"):
        assert len({one[name] for one in ranks}) == 3, name


def test_the_site_s_variables_come_in_and_frozen_ones_stay(jobs: Jobs, built_example: Built) -> None:
    (threads,) = [one.value for one in built_example.lock.environment if one.name == "OMP_NUM_THREADS"]
    for one in jobs.ranks["first"]:
        assert (one["NCCL_SOCKET_IFNAME"], one["PRIVATE"], one["OMP_NUM_THREADS"]) == ("ib7", None, threads)
    kept = f"OMP_NUM_THREADS: the frozen value is kept (here 31, in the image {threads})"
    network = "network: the host's, since this is one of several processes of a job"
    # Said by the first rank of each of the three jobs with Python, and torchrun's; not by all.
    assert (jobs.stderr.count(kept), jobs.stderr.count(network)) == (4, 4)


def test_a_secret_comes_in_and_is_printed_nowhere(jobs: Jobs) -> None:
    assert {one["HF_TOKEN"] for one in jobs.ranks["first"]} == {TOKEN}
    assert {one["HF_TOKEN"] for one in jobs.ranks["drawn"]} == {None}
    assert TOKEN not in jobs.stdout + jobs.stderr


def test_the_same_seed_gives_every_rank_the_same_again_also_by_our_own_srun(jobs: Jobs) -> None:
    assert jobs.ranks["again"] == jobs.ranks["first"]
    assert "\n0: Using seed: 7\n" in jobs.stderr


def test_without_a_seed_all_ranks_find_one(jobs: Jobs) -> None:
    (seed,) = {one["REPROBUILD_SEED"] for one in jobs.ranks["drawn"]}
    assert seed not in (None, "7")
    assert len({one["python"] for one in jobs.ranks["drawn"]}) == 3
    assert "it was made of SLURM_JOB_ID, SLURM_STEP_ID" in jobs.stderr


def test_torchrun_in_the_image(jobs: Jobs) -> None:
    ranks = jobs.ranks["train"]
    assert [(one["sum"], one["world"], one["seed"]) for one in ranks] == [(3.0, 2, 7), (3.0, 2, 7)]
    assert ranks[0]["python"] != ranks[1]["python"]


def test_the_highest_code_of_the_ranks_is_the_job_s(jobs: Jobs) -> None:
    assert sorted(jobs.stdout.split("\n")) == ["", "again gave 2", "drawn gave 2", "first gave 2"]
