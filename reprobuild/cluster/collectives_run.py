"""Collectives between the nodes of a job, by torchrun.

The node's engine runs it in the image. The ranks meet on the first node of the step. The others wait
`LONGEST` seconds for a missing node; once one has ended, Slurm waits `PATIENCE` more, and ends the rest. The
logs until then are judged (`collectives_judge`).
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

from reprobuild.cluster.aggregate import ClusterResult
from reprobuild.cluster.shared_dir import COLLECTIVES
from reprobuild.cluster.slurm import node_address
from reprobuild.cluster.slurm_allocation import SlurmJob
from reprobuild.cluster.slurm_step import run_step
from reprobuild.context import RunContext
from reprobuild.lock.system import FILES
from reprobuild.pipeline.verify_options import VerifyOptions
from reprobuild.verify.determinism.document import Device
from reprobuild.verify.determinism.run import PYTHON

PROGRAM = f"{FILES}/lib/reprobuild_runtime/probes/between.py"
FEWEST = 2  # the fewest nodes for a collective
LONGEST = 300  # seconds that ranks wait for each other, or half of the deadline
PATIENCE = 60  # seconds: all end together, or the rest of their work is useless
REPEATS, THOROUGH = 3, 30  # of each collective in each round
PORTS = range(20_000, 30_000)  # below those that Linux itself gives to programs


def devices_of(cluster: ClusterResult) -> dict[Device, tuple[str, ...]]:
    """Return the nodes that answered, by kind of device, sorted."""
    nodes_by_device: dict[Device, set[str]] = {}
    for group in cluster.groups:
        nodes_by_device.setdefault(group.device, set()).update(group.nodes)
    return {device: tuple(sorted(nodes)) for device, nodes in sorted(nodes_by_device.items())}


def run_collectives(
    job: SlurmJob, nodes: Sequence[str], device: Device, program: Sequence[str], out: Path, seed: int, folder: Path,
    context: RunContext, checks: VerifyOptions, deadline: int,
) -> tuple[str, ...]:  # fmt: skip
    """Run the collectives between nodes; return srun's messages.

    The answers are in the directory.

    Args:
        program: starts this program.
        out: the output directory; every node has it at this path.
        folder: of the cluster check.

    Raises:
        EngineError: Slurm is missing.
    """
    job_nodes = [
        node for node in job.nodes if node in set(nodes)
    ]  # the first task of a step is on the first of these
    limit = max(1, min(LONGEST, deadline // 2))
    options = {
        "device": device, "seed": seed, "nodes": len(job_nodes), "ranks": _count_ranks(device, len(job_nodes)),
        "address": node_address(job_nodes[0], context.env), "second": node_address(job_nodes[1], context.env),
        "port": random.choice(PORTS),
        "limit": limit, "repeats": THOROUGH if checks.thorough else REPEATS,
    }  # fmt: skip
    command = [
        *program, "run", str(out.absolute()), "--seed", str(seed), "--network", "host",
        "--gpu", checks.gpus if device == "cuda" else "none",
        *(["--engine", checks.engine] if checks.engine else []), "--", PYTHON, PROGRAM, json.dumps(options),
    ]  # fmt: skip
    context.say(
        f"job {job.number}: collectives between {len(job_nodes)} nodes, {device}, for at most {deadline} s"
    )
    return run_step(
        job,
        job_nodes,
        command,
        folder / f"{COLLECTIVES}{device}",
        context.env,
        deadline=deadline,
        patience=PATIENCE,
    )


def _count_ranks(device: Device, nodes: int) -> int | str:
    """Return the number of ranks of a node.

    A sum of two cannot show its order, so two nodes have two ranks each.
    """
    return "gpu" if device == "cuda" else 2 if nodes == FEWEST else 1
