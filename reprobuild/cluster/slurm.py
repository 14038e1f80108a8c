"""Queries to Slurm's own programs, and cancellation."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping

from reprobuild.errors import EngineError
from reprobuild.infra.proc import run

SECONDS = 60  # for Slurm's own programs to answer
MOST_NOTES, LONGEST = 20, 300
HINT = (
    "run this on a login node or in a job, where `srun` and `salloc` are; "
    "without Slurm, use `reprobuild cluster worker` and `reprobuild cluster gather`"
)


def run_slurm(*argv: str, env: Mapping[str, str]) -> str:
    """Return the output of a Slurm program.

    Raises:
        EngineError: it is missing, fails, or does not answer.
    """
    answer = run(argv, env=env, purpose="ask Slurm for its nodes and steps", timeout=SECONDS, hint=HINT)
    return answer.decode(errors="replace").strip()


def expand_node_list(node_list: str, env: Mapping[str, str]) -> list[str]:
    """Return the names in a node list such as `n[1-3]`."""
    return run_slurm("scontrol", "show", "hostnames", node_list, env=env).split()


def node_address(node: str, env: Mapping[str, str]) -> str:
    """Return the address by which other nodes reach a node.

    It is Slurm's, or the node's name if Slurm gives none.
    """
    with contextlib.suppress(EngineError):
        output = run_slurm("scontrol", "show", "node", node, "--oneliner", env=env)
        if match := re.search(r"\bNodeAddr=([A-Za-z0-9_.:-]+)", output):
            return match[1]
    return node


def cancel_job(job: str, env: Mapping[str, str]) -> None:
    """Cancel a job or a step by its number."""
    with contextlib.suppress(EngineError):  # it has ended by itself
        run(["scancel", job], env=env, purpose="end the job or its step", timeout=SECONDS, hint=HINT)
