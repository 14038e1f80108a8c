"""The determinism test on many nodes, started and collected."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from reprobuild.cluster import kubernetes_collect, kubernetes_job
from reprobuild.cluster.aggregate import ClusterResult, ExpectedImage, gather_results
from reprobuild.cluster.answer_folder import name_folder
from reprobuild.cluster.answer_table import AnswerTable
from reprobuild.cluster.collectives_run import FEWEST, devices_of, run_collectives
from reprobuild.cluster.shared_dir import COLLECTIVES, NOT_RUN
from reprobuild.cluster.slurm_allocation import JobRequest, allocate_nodes
from reprobuild.cluster.slurm_step import run_step
from reprobuild.context import RunContext
from reprobuild.errors import InconclusiveError, UsageError
from reprobuild.image.model import Image as Built
from reprobuild.infra.atomic import write_file
from reprobuild.lock.model import Lock
from reprobuild.pipeline.verify_options import VerifyOptions
from reprobuild.verify.check import check_seed
from reprobuild.verify.determinism.document import Device
from reprobuild.verify.determinism.expected import Expected, read_expected
from reprobuild.verify.determinism.run import OTHER
from reprobuild.verify.verdict import Verdict


def check_slurm(
    lock: Lock, image: Built, out: Path, context: RunContext, checks: VerifyOptions, request: JobRequest,
    program: Sequence[str], *, collectives: bool | None = None,
) -> ClusterResult:  # fmt: skip
    """Run the determinism test on each node through Slurm.

    Collectives between the nodes follow, and the answers are collected.

    Args:
        out: must be at the same path on all nodes, as must the store and this program.
        program: starts this program.
        collectives: run those between the nodes that answered; True leaves the result open if they cannot be
            run, and None runs them for two nodes or more, unless only some probes are selected.

    Raises:
        UsageError: the request is not possible.
        EngineError: Slurm is missing, or gives no nodes.
        InconclusiveError: the image lacks this determinism test.
    """
    folder = name_folder(out, context)
    table = answer_table(lock, context)
    context.store.release()  # the check takes long, and the nodes use it
    command = [*program, *node_command(out, context, checks, folder)]
    wished = not checks.probes if collectives is None else collectives
    with allocate_nodes(request, context.env, context.say) as job:
        context.say(
            f"job {job.number}: the determinism test on {len(job.nodes)} nodes, "
            f"for at most {request.deadline} s: {folder}"
        )
        notes = run_step(
            job, job.nodes, command, folder, context.env, deadline=request.deadline, lost_nodes=job.gone
        )
        all_nodes, met = (*job.nodes, *job.gone), dict[Device, tuple[str, ...]]()
        answered = devices_of(check_folder(lock, image, folder, table, context, all_nodes)) if wished else {}
        for device, nodes in answered.items():
            if why := collectives_obstacle(table, device, nodes):
                context.say(f"collectives between nodes, {device}, are not run: {why}")
                if collectives:
                    note_not_run(folder, device, why)
                continue
            met[device] = nodes
            notes += run_collectives(
                job, nodes, device, program, out, check_seed(lock), folder, context, checks, request.deadline
            )
    return check_folder(lock, image, folder, table, context, all_nodes, notes, met)


def collectives_obstacle(table: AnswerTable, device: Device, nodes: Sequence[str]) -> str:
    """Return the reason why collectives cannot be run, or "".

    `nodes` are those that answered on the device.
    """
    if len(nodes) < FEWEST:
        return f"of the nodes only {', '.join(nodes)} answered on it"
    return "" if table.between[device] else OTHER


def note_not_run(folder: Path, device: Device, why: str) -> None:
    """Record that the requested collectives could not be run.

    The record leaves the result open.
    """
    directory = folder / f"{COLLECTIVES}{device}"
    directory.mkdir(exist_ok=True)
    write_file(directory / NOT_RUN, f"{why}\n".encode())


def check_folder(
    lock: Lock, image: Built, folder: Path, table: AnswerTable, context: RunContext, nodes: Sequence[str] = (),
    notes: Sequence[str] = (), met: Mapping[Device, Sequence[str]] = {},
) -> ClusterResult:  # fmt: skip
    """Compare the verdict files in a directory.

    Raises:
        UsageError: the directory does not exist, or has no node.
    """
    expected_image = ExpectedImage(tree=image.tree, seed=check_seed(lock), profile=lock.profile)
    now = datetime.datetime.fromtimestamp(context.now, datetime.timezone.utc)
    return gather_results(folder, expected_image, table, nodes, notes, f"{now:%Y-%m-%dT%H:%M:%SZ}", met)


def kubernetes_manifest(
    lock: Lock, image: Built, context: RunContext, checks: VerifyOptions, job: kubernetes_job.KubernetesJob
) -> dict[str, Any]:
    """Return the manifest of the Indexed Job for Kubernetes.

    Raises:
        UsageError: Kubernetes does not allow a name, a probe is unknown, or GPUs are given although none is
            checked.
        InconclusiveError: the image lacks this determinism test.
    """
    if checks.cpu_only and job.gpus:
        raise UsageError(
            f"--cpu-only asks no GPU, but --node-gpus is {job.gpus}", hint="leave one of the two options out"
        )
    return kubernetes_job.job_manifest(
        job, lock, image.manifest, _expected_answers(lock, context), controls=checks.controls, thorough=checks.thorough,
        probes=checks.probes,
    )  # fmt: skip


def judge_pods(
    lock: Lock, image: Built, folder: Path, context: RunContext, checks: VerifyOptions, nodes: int
) -> Path:
    """Make verdict files of the pods' output.

    Return their directory. The options must be those of the job.

    Raises:
        UsageError: the directory has no pods.
        InconclusiveError: the image lacks this determinism test.
    """
    return kubernetes_collect.write_certificates(
        folder, lock, image, _expected_answers(lock, context), checks, now=context.now, nodes=nodes
    )


def answer_table(lock: Lock, context: RunContext) -> AnswerTable:
    """Return the names of all answers of a lock's image.

    Raises:
        InconclusiveError: it lacks this determinism test.
    """
    return AnswerTable(_expected_answers(lock, context))


def _expected_answers(lock: Lock, context: RunContext) -> dict[Device, Expected]:
    expectations = read_expected(lock, context.store, context.say)
    if expectations is None:
        raise InconclusiveError("nodes cannot be compared by this image", hint=OTHER)
    return expectations


def json_document(result: ClusterResult | Verdict) -> Any:
    """Return the document of `--json`, including a cluster's verdict."""
    document = msgspec.to_builtins(result)
    return {"verdict": result.verdict, **document} if isinstance(result, ClusterResult) else document


def node_command(out: Path, context: RunContext, checks: VerifyOptions, folder: Path) -> list[str]:
    """Return the command line of a node."""
    return [
        "cluster", "worker", str(out.absolute()), "--output", str(folder), "--store", str(context.store.root),
        "--gpu", checks.gpus,
        *(["--cpu-only"] if checks.cpu_only else []),
        *(["--engine", checks.engine] if checks.engine else []),
        *(["--thorough"] if checks.thorough else []),
        *([] if checks.controls else ["--no-controls"]),
        *(word for name in checks.probes for word in ("--probe", name)),
    ]  # fmt: skip
