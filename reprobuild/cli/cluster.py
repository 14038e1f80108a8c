"""Options of `verify` for many nodes, and what they become."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import click

from reprobuild.cli import common, documents
from reprobuild.errors import UsageError
from reprobuild.image.model import Image
from reprobuild.infra import proc
from reprobuild.lock.model import Lock
from reprobuild.pipeline.verify import VerifyOptions

PROGRAM = tuple(proc.own_module("reprobuild.cli"))
WAYS = ("kubernetes", "slurm", "member", "gather")
ALWAYS = frozenset({"out", "store", "as_json"})
# How a node is to be checked, and what a pod is to be asked.
CHECKED = frozenset({"thorough", "gpus", "engine", "scope", "control", "probes"})
ASKED = frozenset({"thorough", "control", "probes", "nodes", "scope"})
# What each way has a use for; what none of them has is of a check of this machine.
USED = {
    "slurm": CHECKED | {"nodes", "partition", "limit", "srun_options", "deadline", "collectives"},
    "member": CHECKED,
    "gather": frozenset[str](),
    "kubernetes": ASKED | {"repository", "pull_secrets", "node_gpus", "namespace", "labels", "deadline"},
    "kubernetes gather": ASKED,
}
OF_FLEETS = frozenset().union(*USED.values(), WAYS) - CHECKED


def fleet_options(function: common.F) -> common.F:
    """Add the options that check many nodes."""
    for option in reversed(
        [
            click.option(
                "--kubernetes", is_flag=True,
                help="Print the Indexed Job that does it; with --gather, judge what its pods printed.",
            ),
            click.option("--image", "repository", metavar="HOST/NAME", default="", help="Where pods pull it from."),
            click.option(
                "--pull-secret", "pull_secrets", metavar="NAME", multiple=True,
                help="A secret of the cluster, by which its nodes may pull it.",
            ),
            click.option("--node-gpus", type=click.IntRange(0, 64), default=0, help="GPUs of each pod."),
            click.option("--namespace", metavar="NAME", default="", help="Of the job."),
            click.option(
                "--node-label", "labels", metavar="KEY=VALUE", multiple=True, help="Only nodes with this label."
            ),
            click.option("--slurm", is_flag=True, help="On many nodes, through Slurm; see docs/fleets.md."),
            click.option("--nodes", type=click.IntRange(1, 100_000), default=None, help="How many nodes."),
            click.option("--partition", metavar="NAME", default="", help="Slurm's partition."),
            click.option("--time", "limit", metavar="TIME", default="", help="Slurm's limit of the job."),
            click.option(
                "--srun-option", "srun_options", metavar="WORD", multiple=True,
                help="For salloc; inside of a job for srun: --srun-option=--gres=gpu:8.",
            ),
            click.option(
                "--deadline", type=click.IntRange(1, 7 * 86400), default=1800, show_default=True, metavar="SECONDS",
                help="How long nodes are waited for, from their start, and again for the collectives between them on "
                "each kind of device.",
            ),
            click.option(
                "--collectives/--no-collectives", default=None,
                help="Collectives between the nodes, through Slurm.  [default: run, but not with --probe]",
            ),
            click.option(
                "--member", metavar="FOLDER", type=common.PATH,
                help="Be one node of a fleet: the smoke test alone, the certificate into FOLDER.",
            ),
            click.option(
                "--gather", metavar="FOLDER", type=common.PATH, help="Compare the certificates in FOLDER."
            ),
            click.option(
                "--probe", "probes", metavar="NAME", multiple=True,
                help="This probe alone; the verdict is then inconclusive.",
            ),
        ]
    ):  # fmt: skip
        function = option(function)
    return function


def asked(options: dict[str, Any]) -> bool:
    """Tell whether the options ask for more than this machine's own check.

    Raises:
        UsageError: they contradict each other, or one is given that has no effect.
    """
    ways = [name for name in WAYS if options[name]]
    if len(ways) > 1 and ways != ["kubernetes", "gather"]:
        raise UsageError(
            f"--{ways[0]} and --{ways[1]} are two different things",
            hint="choose one of them: see docs/fleets.md",
        )
    _refuse_idle(" ".join(ways))
    return bool(ways)


def _refuse_idle(way: str) -> None:
    """Refuse an option that the user gave and the way has no use for: what he asked for would silently not be."""
    context = click.get_current_context()
    for parameter in context.command.params:
        name = parameter.name or ""
        if context.get_parameter_source(name) is not click.core.ParameterSource.COMMANDLINE:
            continue
        if name in USED[way] | ALWAYS | {*WAYS} if way else name not in OF_FLEETS:
            continue
        words = parameter.opts if context.params[name] else [*parameter.secondary_opts, *parameter.opts]
        asked_for = " and ".join(f"--{word}" for word in way.split()) or "a check of this machine alone"
        uses = ", ".join(f"--{key}" for key in WAYS if name in USED[key])
        raise UsageError(
            f"{words[0]} has no effect on {asked_for}",
            hint="leave it out: see docs/fleets.md" if way else f"leave it out, or add one of: {uses}",
        )


def command(
    lock: Lock, image: Image, out: Path, store: Path | None, checks: VerifyOptions, options: dict[str, Any],
    as_json: bool,
) -> int:  # fmt: skip
    """Do what the options ask for, and print what came of it."""
    from reprobuild.cluster import check, kubernetes_commands, kubernetes_job, slurm_allocation, worker
    from reprobuild.cluster.report import write_down
    from reprobuild.cluster.text import render_fleet

    session = common.make_session(store)
    if options["member"]:
        node = worker.node_name(session, socket.gethostname())
        verdict = worker.take_part(lock, image, out, session, checks, options["member"], node)
        documents.print_json(check.told(verdict)) if as_json else common.tell(worker.line(node, verdict))
        return worker.exit_code(verdict)
    if options["slurm"]:
        proc.check_installed()
        wanted = slurm_allocation.JobRequest(
            nodes=options["nodes"] or 0, partition=options["partition"], time=options["limit"],
            options=options["srun_options"], deadline=options["deadline"],
        )  # fmt: skip
        fleet = check.check_slurm(
            lock, image, out, session, checks, wanted, PROGRAM, collectives=options["collectives"]
        )
    elif options["gather"]:
        folder = options["gather"]
        if options["kubernetes"]:
            folder = check.judge_pods(lock, image, folder, session, checks, options["nodes"] or 0)
        table = check.table_of(lock, session)
        fleet = check.check_folder(lock, image, folder, table, session)
    else:
        job = kubernetes_job.KubernetesJob(
            image=options["repository"], pull_secrets=options["pull_secrets"],
            nodes=options["nodes"] or 0, namespace=options["namespace"],
            gpus=options["node_gpus"], selector=kubernetes_job.selector(options["labels"]),
            deadline=options["deadline"],
        )  # fmt: skip
        documents.print_json(check.job_of(lock, image, session, checks, job))
        common.hand_on(2, kubernetes_commands.commands(job, out, checks, store).encode())
        return 0
    # Printed first: whatever becomes of the files, the answer is there.
    documents.print_json(check.told(fleet)) if as_json else common.tell(render_fleet(fleet))
    write_down(lock, image, out, session, fleet)
    return fleet.exit_code
