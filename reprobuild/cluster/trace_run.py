"""A command that each node of a Slurm job records, and the comparison of the records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from reprobuild.cluster.answer_folder import name_folder
from reprobuild.cluster.slurm_allocation import JobRequest, allocate_nodes
from reprobuild.cluster.slurm_step import run_step
from reprobuild.cluster.trace_groups import TracedCluster, compare_traces
from reprobuild.context import RunContext
from reprobuild.output.directory import read_image
from reprobuild.run.options import RunOptions
from reprobuild.run.run import prepare
from reprobuild.run.slurm import words_of
from reprobuild.verify.check import check_seed


def trace_slurm(
    out: Path, arguments: Sequence[str], context: RunContext, options: RunOptions, pattern: str, request: JobRequest,
    program: Sequence[str],
) -> TracedCluster:  # fmt: skip
    """Run a command once on each node through Slurm, and compare the records of its steps.

    Args:
        out: must be at the same path on all nodes, as must the store and this program.
        arguments: the command.
        context: of this program.
        options: of the containers; the seed is that of the lock, else 42, if it is None.
        pattern: of printed lines that end a step, or empty.
        request: the nodes.
        program: starts this program.

    Raises:
        UsageError: the options or the request are not possible.
        EngineError: Slurm is missing, or gives no nodes.
    """
    lock, _ = read_image(out)
    seed = check_seed(lock) if options.seed is None else options.seed
    options = msgspec.structs.replace(options, seed=seed)
    prepare(lock, arguments, options, context.env)  # a mistake in the options is an error of this machine
    folder = name_folder(out, context)
    context.store.release()  # the runs take long, and the nodes use it
    command = [
        *program, "cluster", "trace-worker", str(out.absolute()), "--output", str(folder),
        "--store", str(context.store.root), *(["--steps", pattern] if pattern else []), *words_of(options),
        "--", *arguments,
    ]  # fmt: skip
    with allocate_nodes(request, context.env, context.say) as job:
        context.say(
            f"job {job.number}: the command on {len(job.nodes)} nodes, for at most {request.deadline} s: {folder}"
        )
        notes = run_step(
            job, job.nodes, command, folder, context.env, deadline=request.deadline, lost_nodes=job.gone
        )
        nodes = (*job.nodes, *job.gone)
    return compare_traces(folder, nodes, notes)
