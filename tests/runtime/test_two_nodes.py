"""Two nodes' worth of processes: torchrun with gloo on loopback, two agents with two ranks each, started separately."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import RUNTIME

PROGRAM = """
import json, os, random, sys
import numpy as np, torch
import torch.distributed as dist
from torch.utils.data import DataLoader

class Noise:
    def __len__(self): return 4
    def __getitem__(self, index): return torch.tensor(float(np.random.default_rng().standard_normal()))

if __name__ == "__main__":
    dist.init_process_group("gloo")
    drawn = {
        "seed": int(os.environ["REPROBUILD_SEED"]), "initial": torch.initial_seed(), "torch": torch.rand(3).tolist(),
        "random": random.random(), "Random": random.Random().random(), "numpy": float(np.random.random()),
        "rng": float(np.random.default_rng().random()),
        "loader": [float(x) for x in DataLoader(Noise(), batch_size=None, num_workers=2)],
    }
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = np.random.default_rng()
    for _ in range(3):
        batch = torch.tensor(generator.standard_normal((16, 8)), dtype=torch.float32)
        optimizer.zero_grad(); model(batch).square().mean().backward(); optimizer.step()
    drawn["weights"] = [w.hex() for w in torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()]
    open(sys.argv[1] + "/" + os.environ["RANK"], "w").write(json.dumps(drawn))
    dist.barrier()
    dist.destroy_process_group()
"""


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def train(
    python: Path, folder: Path, job: str, env: Mapping[str, str], port: int
) -> tuple[list[dict[str, Any]], list[str]]:
    """Run the program on two nodes of two ranks; return what each rank says, and each node's standard error."""
    folder.mkdir()
    (folder / "program.py").write_text(PROGRAM)
    out = folder / "out"
    out.mkdir()

    def node(number: int) -> subprocess.Popen[str]:
        argv = [
            sys.executable, "-I", "-S", str(RUNTIME / "entrypoint.py"), str(python), "-m", "torch.distributed.run",
            "--nnodes", "2", "--nproc-per-node", "2", "--node-rank", str(number), "--rdzv-id", job,
            "--master-addr", "127.0.0.1", "--master-port", str(port), str(folder / "program.py"), str(out),
        ]  # fmt: skip
        full = {
            "PATH": os.environ["PATH"], "HOME": str(folder), "REPROBUILD_RECORD": "", "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "lo", **env,
        }  # fmt: skip
        return subprocess.Popen(argv, env=full, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    nodes = [node(0), node(1)]
    said = [one.communicate(timeout=240)[1] for one in nodes]
    assert [one.returncode for one in nodes] == [0, 0], said
    return [json.loads((out / str(rank)).read_text()) for rank in range(4)], said


@dataclass(frozen=True)
class Jobs:
    """What the ranks of three jobs drew, and what the nodes of the first said."""

    first: list[dict[str, Any]]
    second: list[dict[str, Any]]
    again: list[dict[str, Any]]
    said: list[str]


@pytest.fixture(scope="module")
def jobs(torch_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Jobs:
    """Two jobs without a seed, and one with the seed that the first has logged."""
    folder, port = tmp_path_factory.mktemp("jobs"), free_port()
    first, said = train(torch_python, folder / "first", "first", {}, port)
    second, _ = train(torch_python, folder / "second", "second", {}, port)
    again, _ = train(
        torch_python, folder / "again", "any", {"REPROBUILD_SEED": str(first[0]["seed"])}, free_port()
    )
    return Jobs(first, second, again, said)


@pytest.mark.long
def test_all_ranks_of_both_nodes_agree_on_a_seed_which_is_said(jobs: Jobs) -> None:
    (seed,) = {rank["seed"] for rank in jobs.first}
    assert {rank["initial"] for rank in jobs.first} == {seed}
    for text in jobs.said:
        assert f"Using seed: {seed}\n" in text
        assert "it was made of TORCHELASTIC_RUN_ID, MASTER_ADDR, MASTER_PORT" in text


@pytest.mark.long
def test_another_job_has_another_seed_and_other_results(jobs: Jobs) -> None:
    (seed,) = {rank["seed"] for rank in jobs.second}
    assert seed != jobs.first[0]["seed"]
    assert [jobs.first[0][name] == jobs.second[0][name] for name in ("torch", "weights")] == [False, False]


@pytest.mark.long
def test_the_seed_that_was_logged_gives_the_same_results(jobs: Jobs) -> None:
    assert jobs.again == jobs.first


@pytest.mark.long
def test_streams_are_the_ranks_own_and_torch_has_the_one_seed(jobs: Jobs) -> None:
    assert len({str(rank["torch"]) for rank in jobs.first}) == 1  # frameworks add their own offsets
    assert len({str(rank["weights"]) for rank in jobs.first}) == 1
    for name in ("random", "Random", "numpy", "rng"):
        assert len({rank[name] for rank in jobs.first}) == 4, name
    assert len({number for rank in jobs.first for number in rank["loader"]}) == 16
