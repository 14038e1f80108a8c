"""`reprobuild cluster`."""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from reprobuild.cli import common, documents
from reprobuild.cli.run import CommandAfterDashes
from reprobuild.cli.trace import container_options, pattern_option
from reprobuild.cluster import (
    check,
    kubernetes_commands,
    kubernetes_job,
    slurm_allocation,
    trace_groups,
    trace_run,
    trace_text,
    trace_worker,
    worker,
)
from reprobuild.cluster.aggregate import ClusterResult
from reprobuild.cluster.report import write_cluster_result
from reprobuild.cluster.text import render_cluster
from reprobuild.infra import proc
from reprobuild.output import directory
from reprobuild.pipeline.verify_options import VerifyOptions
from reprobuild.run.options import RunOptions
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


def slurm_options(function: common.F) -> common.F:
    """Add the options for the nodes of a Slurm job."""
    for option in reversed([
        click.option("--nodes", type=NODES, help="Number of nodes. [default: all nodes of the present job]"),
        click.option("--partition", metavar="NAME", default="", help="Partition of a new job."),
        click.option(
            "--time-limit", metavar="TIME", default="", help="Time limit of a new job, as Slurm writes it."
        ),
        click.option(
            "--srun-args", metavar="OPTIONS", default="",
            help="Options for salloc, or inside a job for srun: --srun-args=--gres=gpu:8.",
        ),
    ]):  # fmt: skip
        function = option(function)
    return function


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


def _make_request(
    nodes: int | None, partition: str, time_limit: str, srun_args: str, timeout: int
) -> slurm_allocation.JobRequest:
    return slurm_allocation.JobRequest(
        nodes=nodes or 0, partition=partition, time=time_limit, options=tuple(split_srun_args(srun_args)),
        deadline=timeout,
    )  # fmt: skip


def _report_traces(cluster: trace_groups.TracedCluster, *, as_json: bool) -> int:
    if as_json:
        documents.print_json({"verdict": cluster.verdict, **msgspec.to_builtins(cluster)})
    else:
        common.print_report(trace_text.render_traces(cluster))
    return cluster.exit_code


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
    """Run the determinism test or a command on many machines, and compare them.

    \b
    Example:
      reprobuild cluster run frozen --nodes 64
      reprobuild cluster trace frozen --nodes 4 -- python train.py --steps 20
    """


@command.command()
@out_argument
@slurm_options
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
    request = _make_request(nodes, partition, time_limit, srun_args, timeout)
    context = common.make_context(store)
    proc.check_installed()
    cluster = check.check_slurm(
        lock, image, out, context, _make_verify_options(**options), request, PROGRAM, collectives=collectives
    )
    return _report_result(cluster, as_json, partial(write_cluster_result, lock, image, out, context))


@command.command(cls=CommandAfterDashes)
@out_argument
@slurm_options
@timeout_option
@pattern_option
@container_options
@common.store_option
@common.json_option
@click.argument("arguments", metavar="-- CMD...", nargs=-1, required=True)
def trace(
    out: Path, nodes: int | None, partition: str, time_limit: str, srun_args: str, timeout: int, pattern: str,
    store: Path | None, as_json: bool, arguments: tuple[str, ...], **options: Any,
) -> int:  # fmt: skip
    """Run CMD once on each node through Slurm, and find the first step in which nodes differ.

    Each node runs CMD by itself in the image, with one seed. Nodes of one platform must record the same: batches,
    losses, gradients, parameters and generators of each step.

    \b
    Example:
      reprobuild cluster trace frozen --nodes 4 --partition gpu -- python train.py --steps 20
    """
    request = _make_request(nodes, partition, time_limit, srun_args, timeout)
    context = common.make_context(store)
    proc.check_installed()
    return _report_traces(
        trace_run.trace_slurm(out, arguments, context, RunOptions(**options), pattern, request, PROGRAM),
        as_json=as_json,
    )


@command.command("trace-worker", cls=CommandAfterDashes)
@out_argument
@click.option(
    "-o", "--output", "target", metavar="DIR", type=common.PATH, required=True,
    help="Directory of the records, which all machines share.",
)  # fmt: skip
@pattern_option
@container_options
@common.store_option
@common.json_option
@click.argument("arguments", metavar="-- CMD...", nargs=-1, required=True)
def trace_work(
    out: Path, target: Path, pattern: str, store: Path | None, as_json: bool, arguments: tuple[str, ...],
    **options: Any,
) -> None:  # fmt: skip
    """Record a run of CMD on this machine as one of many.

    The records become DIR/NODE.trace, which `reprobuild cluster gather-traces` compares with the others.

    \b
    Example:
      pdsh -w node[01-64] reprobuild cluster trace-worker /shared/frozen --output /shared/traces -- python train.py
    """
    context = common.make_context(store)
    node = worker.node_name(context, socket.gethostname())
    traced = trace_worker.record_node(out, arguments, context, RunOptions(**options), pattern, target, node)
    documents.print_json(msgspec.to_builtins(traced)) if as_json else common.print_report(
        f"{node}: {traced.steps} steps recorded"
    )


@command.command()
@click.argument("folder", metavar="DIR", type=common.PATH)
@common.json_option
def gather_traces(folder: Path, as_json: bool) -> int:
    """Compare the records of many machines in DIR.

    \b
    Example:
      reprobuild cluster gather-traces /shared/traces
    """
    return _report_traces(trace_groups.compare_traces(folder), as_json=as_json)


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
    # Without our version: kubectl refuses a field that it does not know.
    documents.print_manifest(
        check.kubernetes_manifest(lock, image, common.make_context(store), checks, request)
    )
    common.write_output(2, kubernetes_commands.shell_commands(request, out, checks, store).encode())


@command.command("worker")
@out_argument
@click.option(
    "-o", "--output", "target", metavar="DIR", type=common.PATH, required=True,
    help="Directory of the verdict files, which all machines share.",
)  # fmt: skip
@machine_options
@common.store_option
@common.json_option
def work(out: Path, target: Path, store: Path | None, as_json: bool, **options: Any) -> int:
    """Run the determinism test on this machine as one of many.

    The verdict file becomes DIR/NODE.json, which `reprobuild cluster gather` compares with the others.

    \b
    Example:
      pdsh -w node[01-64] reprobuild cluster worker /shared/frozen --output /shared/verdicts
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
    """Compare the verdict files of many machines in DIR.

    \b
    Example:
      reprobuild cluster gather /shared/frozen /shared/verdicts
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
