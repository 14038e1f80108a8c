"""A recorded run of a command on one node of a cluster.

The node writes the records of each step into the directory that all nodes share.
"""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import msgspec

from reprobuild.cluster.shared_dir import BEGAN, CERTIFICATE, ENDED, ERROR, LARGEST, TRACE
from reprobuild.cluster.traced_node import TracedNode
from reprobuild.context import RunContext
from reprobuild.errors import ReproError
from reprobuild.image.choices.platform import describe_platform
from reprobuild.infra.atomic import write_file
from reprobuild.run.choices import find_run_platform
from reprobuild.run.options import RunOptions
from reprobuild.run.run import image_variables
from reprobuild.run.site_env import kind_of
from reprobuild.trace.command import no_steps_error, open_containers, save_logs
from reprobuild.trace.traced_run import TraceSettings
from reprobuild.verify.workload.work import Work

_OF_JOB = ("scheduler", "launcher")  # kinds of variables


def record_node(
    out: Path, arguments: tuple[str, ...], context: RunContext, options: RunOptions, pattern: str, folder: Path,
    node: str,
) -> TracedNode:  # fmt: skip
    """Run a command once, and write its records into `folder/NODE.trace`.

    Each step is recorded, so that nodes of different speed record the same. Earlier files of the node are removed.

    Args:
        out: the output directory of the image.
        arguments: the command.
        context: of the run.
        options: of the container.
        pattern: of printed lines that end a step, or empty.
        folder: the directory that all nodes share; made if it is missing.
        node: the name of this node.

    Raises:
        ReproError: there are no records; the reason is also in the directory.
    """
    # Each node runs the command by itself: the number of a node is no rank, which would change the seed.
    site = {name: value for name, value in context.env.items() if kind_of(name) not in _OF_JOB}
    folder.mkdir(parents=True, exist_ok=True)
    for suffix in (CERTIFICATE, ERROR, ENDED):
        (folder / f"{node}{suffix}").unlink(missing_ok=True)
    write_file(folder / f"{node}{BEGAN}", b"")  # it replaces a link of another writer
    target = folder / f"{node}{TRACE}"
    if target.is_symlink():
        target.unlink()
    elif target.exists():
        shutil.rmtree(target)
    work = Work(command=arguments, artefacts=(), ignored=(), text=shlex.join(arguments))
    try:
        with open_containers(out, work, context, options, pattern, site) as opened:
            run = opened.containers.run(TraceSettings(stride=1), "steps")
            steps = max((len(log) for log in run.logs.values()), default=0)
            if steps <= 1:  # what is recorded at the end of a program counts as one
                raise no_steps_error(out, arguments)
            save_logs(run, target)
            frozen = image_variables(opened.lock)
            platform = find_run_platform(opened.lock, opened.task, frozen, context.env)
    except ReproError as err:
        write_file(folder / f"{node}{ERROR}", f"{err}\n{err.hint}\n".encode()[:LARGEST])
        raise
    traced = TracedNode(
        platform=describe_platform(platform), driver=platform.driver, seed=opened.seed, steps=steps
    )
    write_file(folder / f"{node}{CERTIFICATE}", msgspec.json.encode(traced) + b"\n")
    return traced
