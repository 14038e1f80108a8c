"""`reprobuild cluster`."""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from reprobuild.cli import common, documents
from reprobuild.cluster import check, kubernetes_commands, kubernetes_job, slurm_allocation, worker
from reprobuild.cluster.aggregate import ClusterResult
from reprobuild.cluster.report import write_cluster_result
from reprobuild.cluster.text import render_cluster
from reprobuild.infra import proc
from reprobuild.output import directory
from reprobuild.pipeline.verify_options import VerifyOptions
from reprobuild.run.slurm import split_srun_args

PROGRAM = tuple(proc.own_module("reprobuild.cli"))
NODES = click.IntRange(1, 100_000)

out_argument = click.argument("out", metavar="OUT", type=common.PATH)
nodes_option = click.option(
    "--nodes", type=NODES, required=True, help="Number of nodes, with one pod on each."
)
timeout_option = click.option(
    "--timeout", type=click.IntRange(1, 7 * 86400), default=1800, show_default=True, metavar="SECONDS",
    help="Time limit of each step, counted from the start of the nodes.",
)  # fmt: skip


def probe_options(function: common.F) -> common.F:
    """Add the options for the content of the determinism test."""
    for option in reversed(
        [common.thorough_option, common.controls_option, common.probe_option, common.cpu_only_option]
    ):
        function = option(function)
    return function


def machine_options(function: common.F) -> common.F:
    """Add the options for the determinism test on one machine."""
    return common.gpu_option(common.engine_option(probe_options(function)))


def _make_verify_options(*, no_controls: bool, **options: Any) -> VerifyOptions:
    return VerifyOptions(controls=not no_controls, **options)


def _report_result(cluster: ClusterResult, as_json: bool, write: Callable[[ClusterResult], object]) -> int:
    """Print and save the answer, and return the exit code."""
    # The answer is printed first, so that it is known even if the files cannot be written.
    documents.print_json(check.json_document(cluster)) if as_json else common.print_report(
        render_cluster(cluster)
    )
    write(cluster)
    return cluster.exit_code


@click.group()
def command() -> None:
    """Run the determinism test on many machines.

    \b
    Example:
      reprobuild cluster run frozen --nodes 64
    """


@command.command()
@out_argument
@click.option("--nodes", type=NODES, help="Number of nodes. [default: all nodes of the present job]")
@click.option("--partition", metavar="NAME", default="", help="Partition of a new job.")
@click.option("--time-limit", metavar="TIME", default="", help="Time limit of a new job, as Slurm writes it.")
@click.option(
    "--srun-args", metavar="OPTIONS", default="",
    help="Options for salloc, or inside a job for srun: --srun-args=--gres=gpu:8.",
)  # fmt: skip
@timeout_option
@click.option(
    "--collectives/--no-collectives", default=None,
    help="Run collectives between the nodes.  [default: run, but not with --probe]",
)  # fmt: skip
@machine_options
@common.store_option
@common.json_option
def run(
    out: Path, nodes: int | None, partition: str, time_limit: str, srun_args: str, timeout: int,
    collectives: bool | None, store: Path | None, as_json: bool, **options: Any,
) -> int:  # fmt: skip
    """Run the determinism test on many nodes through Slurm.

    A second step runs collectives between the nodes that answered. All nodes must see OUT, the store and this program
    at the same paths.

    \b
    Example:
      reprobuild cluster run frozen --nodes 64 --partition gpu --srun-args=--gres=gpu:8
    """
    lock, image = directory.read_image(out)
    request = slurm_allocation.JobRequest(
        nodes=nodes or 0, partition=partition, time=time_limit, options=tuple(split_srun_args(srun_args)),
        deadline=timeout,
    )  # fmt: skip
    context = common.make_context(store)
    proc.check_installed()
    cluster = check.check_slurm(
        lock, image, out, context, _make_verify_options(**options), request, PROGRAM, collectives=collectives
    )
    return _report_result(cluster, as_json, partial(write_cluster_result, lock, image, out, context))


@command.command()
@out_argument
@nodes_option
@click.option(
    "--repository", metavar="HOST/NAME", required=True, help="Repository that the pods pull the image from."
)
@click.option(
    "--pull-secret", "pull_secrets", metavar="NAME", multiple=True,
    help="Secret of the cluster that lets its nodes pull the image.",
)  # fmt: skip
@click.option("--node-gpus", type=click.IntRange(0, 64), default=0, help="Number of GPUs of each pod.")
@click.option("--namespace", metavar="NAME", default="", help="Namespace of the job.")
@click.option(
    "--node-selector", "labels", metavar="KEY=VALUE", multiple=True, help="Use only nodes with this label."
)
@timeout_option
@probe_options
@common.store_option
@common.json_option
def job(
    out: Path, nodes: int, repository: str, pull_secrets: tuple[str, ...], node_gpus: int, namespace: str,
    labels: tuple[str, ...], timeout: int, store: Path | None, as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Print a Kubernetes job that runs the determinism test on many nodes.

    The manifest is JSON on standard output. The commands that run the job and judge its pods are on standard error.

    \b
    Example:
      reprobuild cluster job frozen --nodes 64 --node-gpus 8 --repository registry.example/team/frozen > job.json
    """
    del as_json  # the manifest is JSON with and without it
    lock, image = directory.read_image(out)
    request = kubernetes_job.KubernetesJob(
        image=repository, pull_secrets=pull_secrets, nodes=nodes, namespace=namespace, gpus=node_gpus,
        selector=kubernetes_job.parse_labels(labels), deadline=timeout,
    )  # fmt: skip
    checks = _make_verify_options(**options)
    documents.print_json(check.kubernetes_manifest(lock, image, common.make_context(store), checks, request))
    common.write_output(2, kubernetes_commands.shell_commands(request, out, checks, store).encode())


@command.command("worker")
@out_argument
@click.option(
    "-o", "--output", "target", metavar="DIR", type=common.PATH, required=True,
    help="Directory of the certificates, which all machines share.",
)  # fmt: skip
@machine_options
@common.store_option
@common.json_option
def work(out: Path, target: Path, store: Path | None, as_json: bool, **options: Any) -> int:
    """Run the determinism test on this machine as one of many.

    The certificate becomes DIR/NODE.json, which `reprobuild cluster gather` compares with the others.

    \b
    Example:
      pdsh -w node[01-64] reprobuild cluster worker /shared/frozen --output /shared/certificates
    """
    lock, image = directory.read_image(out)
    context = common.make_context(store)
    node = worker.node_name(context, socket.gethostname())
    verdict = worker.check_node(lock, image, out, context, _make_verify_options(**options), target, node)
    documents.print_json(check.json_document(verdict)) if as_json else common.print_report(
        worker.node_line(node, verdict)
    )
    return verdict.exit_code


@command.command()
@out_argument
@click.argument("folder", metavar="DIR", type=common.PATH)
@common.store_option
@common.json_option
def gather(out: Path, folder: Path, store: Path | None, as_json: bool) -> int:
    """Compare the certificates of many machines in DIR.

    \b
    Example:
      reprobuild cluster gather /shared/frozen /shared/certificates
    """
    lock, image = directory.read_image(out)
    context = common.make_context(store)
    cluster = check.check_folder(lock, image, folder, check.answer_table(lock, context), context)
    return _report_result(cluster, as_json, partial(write_cluster_result, lock, image, out, context))


@command.command()
@out_argument
@click.argument("folder", metavar="DIR", type=common.PATH)
@nodes_option
@probe_options
@common.store_option
@common.json_option
def gather_pods(
    out: Path, folder: Path, nodes: int, store: Path | None, as_json: bool, **options: Any
) -> int:
    """Judge the logs of a Kubernetes job in DIR, and compare its nodes.

    Give the options of `reprobuild cluster job` again. That command prints this one.

    \b
    Example:
      reprobuild cluster gather-pods frozen pods --nodes 64
    """
    lock, image = directory.read_image(out)
    context = common.make_context(store)
    certificates = check.judge_pods(lock, image, folder, context, _make_verify_options(**options), nodes)
    cluster = check.check_folder(lock, image, certificates, check.answer_table(lock, context), context)
    return _report_result(cluster, as_json, partial(write_cluster_result, lock, image, out, context))
