"""The command `run`: run a command in an image.

The image is that of an output directory. The command gets resources for training, and the site's job variables.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

import msgspec
from msgspec import Struct

from reprobuild.context import RunContext
from reprobuild.engines import gpu
from reprobuild.engines.model import DEFAULT_NETWORK, Sink, Streams, Task
from reprobuild.engines.registry import find_engine
from reprobuild.errors import UsageError
from reprobuild.infra.proc.keyboard import is_terminal
from reprobuild.lock.model import Lock
from reprobuild.output.directory import engine_name, read_config_digest, read_image
from reprobuild.recipe.image_config import image_config, split_environment, static_variables
from reprobuild.run.choices import ChoiceUse
from reprobuild.run.options import (
    RunOptions,
    read_limits,
    read_ports,
    read_size,
    read_user,
    read_variables,
    read_volumes,
)
from reprobuild.run.site_env import count_processes, find_hidden_variables, is_first, select_site_env

SHARED_MEMORY = Path("/dev/shm")
# A process writes its record into its start directory, or into the directory that this variable names.
RECORD, RECORDS = "REPROBUILD_RECORD", "reprobuild-record"
LEAST_SHARED = 1 << 30  # used if this machine's is smaller, or unknown


class PreparedRun(Struct, frozen=True, kw_only=True):
    """A task that is ready to run, and messages for the user."""

    task: Task
    said: tuple[str, ...]


def run(out: Path, arguments: Sequence[str], context: RunContext, sink: Sink, run_options: RunOptions) -> int:
    """Run a command in an output directory's image.

    Return its exit code.

    Args:
        out: the output directory.
        arguments: the command.
        context: its `say` logs slow steps, and every conflict between this site's variables and the frozen ones.
        sink: receives the command's output as it comes.
        run_options: the options for the command.

    Raises:
        UsageError: the options are not valid, or the directory holds no image.
        EngineError: the engine does not support an option.
        BuildError, InconclusiveError: see `ChoiceUse`.
    """
    lock, image = read_image(out)
    ready = prepare(lock, arguments, run_options, context.env)
    say = context.say if is_first(context.env) else _say_nothing
    say(f"looking for {run_options.engine or 'an engine'}")
    engine = find_engine(run_options.engine, context.env, gpus=ready.task.gpus)
    for line in (*ready.said, *_engine_notes(engine.NAME, run_options, ready.task)):
        say(line)
    name = engine_name(lock, image, out, context.store, say)
    choices = ChoiceUse(
        out=out,
        lock=lock,
        image=read_config_digest(out, image),
        known=context.store.known,
        options=_of_rank(run_options, context.env),
        say=say,
    )
    with choices.open(ready.task, image_variables(lock), context.env) as session:
        task = session.mount(ready.task) if session else ready.task
        say(f"loading {name} into {engine.NAME}, if it is not there yet")
        engine.load(out / "image", name, image.digests, context.env, context.progress)
        context.store.release()  # the command may go on for days
        context.say("")  # the command's own output follows
        code = engine.attach(name, task, context.env, sink)
        if session:
            choices.finish(session, code)
    return code


def run_silently(
    out: Path, arguments: Sequence[str], context: RunContext, run_options: RunOptions
) -> tuple[int, bytes, bytes]:
    """Run a command as `run` does; return its exit code, and its output up to the bounds of `Streams`."""
    streams = Streams()
    code = run(out, arguments, context, streams.take, run_options)
    return code, streams.read(1), streams.read(2)


def _of_rank(run_options: RunOptions, env: Mapping[str, str]) -> RunOptions:
    """Return the options of this process of a job: the first one saves the choices for all."""
    save = run_options.save_choices and is_first(env)
    return msgspec.structs.replace(run_options, save_choices=save)


def _say_nothing(_: str) -> None:
    """Discard a message; another process of the job logs it."""


def prepare(
    lock: Lock, arguments: Sequence[str], run_options: RunOptions, env: Mapping[str, str]
) -> PreparedRun:
    """Return the task to run, for any engine.

    Raises:
        UsageError: the options are not valid.
    """
    variables = read_variables(run_options, env)
    volumes, read_only = read_volumes(run_options.volumes)
    named_gpus = run_options.gpus not in ("auto", gpu.ALL)  # `none` names no GPU
    site = select_site_env(env, image_variables(lock), variables, named_gpus=named_gpus)
    written = [inside for _, inside in volumes if inside not in read_only]
    workdir = _check_workdir(run_options.workdir)
    record = _record_variables(written, workdir or lock.workdir)
    # Apptainer's own way to the entrypoint changes to the image's directory first.
    words = (*image_config(lock).entrypoint, *arguments) if workdir else tuple(arguments)
    network, why = _choose_network(run_options, env)
    task = Task(
        arguments=words, bypass=bool(workdir), workdir=workdir, environment={**record, **site.values, **variables},
        network=network, volumes=volumes, read_only=read_only, timeout=0, gpus=gpu.parse_gpu_option(run_options.gpus),
        user=("caller" if written else "") if run_options.user is None else read_user(run_options.user),
        shared_memory=read_size(run_options.shm_size) if run_options.shm_size else _shared_memory(),
        generous=True, limits=read_limits(run_options.limits),
        hidden=find_hidden_variables(variables, run_options.hidden), ports=read_ports(run_options.ports),
        stdin=run_options.stdin, terminal=_check_terminal(run_options),
    )  # fmt: skip
    shown = [
        name
        for name in task.hidden
        if any(variable.startswith(f"{name}=") for variable in run_options.variables)
    ]
    warned = [
        f"--env {name}: its value stands on the command line; --secret {shlex.quote(name)} keeps it off"
        for name in sorted(shown)
    ]
    return PreparedRun(task=task, said=(*site.conflicts, *warned, *why))


def image_variables(lock: Lock) -> dict[str, str]:
    """Return the variables of an image.

    They come from its configuration and `environ.json`.
    """
    return {**split_environment(lock.environment)[1], **static_variables(lock)}


def _check_workdir(text: str) -> str:
    if text and not text.startswith("/"):
        raise UsageError(
            f"--workdir {text}: not a path in the container",
            hint="it begins with /; mount a directory of this machine with -v HOST:CONTAINER",
        )
    return text


def _record_variables(written: Sequence[str], workdir: str) -> dict[str, str]:
    """Return the variable that puts the record into a directory of this machine, if one is mounted for writing.

    In a directory of the image, the record ends with the container.
    """
    if not written or any(PurePosixPath(workdir).is_relative_to(inside) for inside in written):
        return {}
    return {RECORD: str(PurePosixPath(written[0], RECORDS))}


def _check_terminal(run_options: RunOptions) -> bool:
    if run_options.terminal and not (run_options.stdin and is_terminal()):
        raise UsageError(
            "-t needs -i, and a terminal as standard input",
            hint="-it gives a shell at a terminal; in a pipe or a script, leave -t out",
        )
    return run_options.terminal


def _choose_network(run_options: RunOptions, env: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Return the network, and a message if it was chosen automatically.

    Processes of one job must reach each other, and a published port needs a network.
    """
    option = run_options.network
    if run_options.ports and option in ("none", "host"):
        raise UsageError(
            f"-p and --network {option}: no port is published from there",
            hint="leave --network out; or with --network host leave -p out: a server is reached at its own port",
        )
    if option is not None:
        return option, ()
    if run_options.ports:
        return DEFAULT_NETWORK, ("network: the engine's own, for -p; the command can reach other machines",)
    if count_processes(env) == 1:
        return "none", ()
    return "host", (
        "network: the host's, since this is one of several processes of a job; --network none cuts it off",
    )


def _shared_memory() -> int:
    """Return the size of this machine's /dev/shm in bytes.

    A job has the same size in a container and outside; it is not reserved.
    """
    try:
        status = os.statvfs(SHARED_MEMORY)
    except OSError:
        return LEAST_SHARED
    return max(LEAST_SHARED, status.f_blocks * status.f_frsize)


def _engine_notes(name: str, run_options: RunOptions, task: Task) -> list[str]:
    """Return messages about the engine's special cases."""
    messages = []
    if name == "apptainer" and run_options.shm_size:
        messages.append("--shm-size: Apptainer's shared memory is half of this machine's, whatever is asked")
    if name == "docker" and task.user == "caller" and run_options.user is None and os.geteuid():
        messages.append(
            f"what is written to mounted directories is yours: the command runs as {os.geteuid()}:{os.getegid()}; "
            "--user image takes the image's own user"
        )
    return messages
