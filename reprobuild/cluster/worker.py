"""The determinism test on one node of a cluster.

The node writes its verdict into the directory that all nodes share.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from reprobuild.cluster.shared_dir import BEGAN, CERTIFICATE, ENDED, ERROR, LARGEST, NODE
from reprobuild.context import RunContext
from reprobuild.errors import ReproError, UsageError
from reprobuild.image.model import Image
from reprobuild.infra.atomic import write_file
from reprobuild.lock.model import Lock
from reprobuild.pipeline.verify import examine
from reprobuild.pipeline.verify_options import VerifyOptions
from reprobuild.verify.verdict import Verdict


def node_name(context: RunContext, host: str) -> str:
    """Return the name of this node.

    It is Slurm's, else that of the host.

    Raises:
        UsageError: it cannot be the name of a file.
    """
    name = context.env.get("SLURMD_NODENAME") or host
    if not NODE.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name of a node", hint="name the node by SLURMD_NODENAME, as Slurm does"
        )
    return name


def check_node(
    lock: Lock, image: Image, out: Path, context: RunContext, checks: VerifyOptions, folder: Path, node: str
) -> Verdict:
    """Run the determinism test here, and write its verdict.

    Earlier files of the node are removed.

    Args:
        folder: the directory that all nodes share; made if it is missing.
        node: the name of this node.

    Raises:
        ReproError: there is no answer; the reason is also in the directory.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for suffix in (CERTIFICATE, ERROR, ENDED):
        (folder / f"{node}{suffix}").unlink(missing_ok=True)
    write_file(folder / f"{node}{BEGAN}", b"")  # it replaces a link of another writer
    try:
        verdict = examine(lock, image, out, context, msgspec.structs.replace(checks, parts=("probes",)))
    except ReproError as err:
        write_file(folder / f"{node}{ERROR}", f"{err}\n{err.hint}\n".encode()[:LARGEST])
        raise
    write_file(folder / f"{node}{CERTIFICATE}", msgspec.json.encode(verdict) + b"\n")
    return verdict


def node_line(node: str, verdict: Verdict) -> str:
    """Return a node's result in one line."""
    determinism = verdict.determinism
    return f"{node}: cpu {determinism.cpu}, gpu {determinism.gpu}, collectives {determinism.collectives}"
