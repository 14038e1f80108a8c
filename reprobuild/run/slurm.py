"""Commands in an image, started by `srun`.

If pyxis is installed, it starts the containers; else each rank runs `run` itself.

https://slurm.schedmd.com/srun.html
"""

from __future__ import annotations

import contextlib
import shlex
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from reprobuild.context import RunContext
from reprobuild.engines.model import Sink
from reprobuild.errors import UsageError
from reprobuild.image.choices.record import read_choices
from reprobuild.infra import proc
from reprobuild.infra.proc.signals import GRACE_SECONDS
from reprobuild.infra.shell_words import quote_path
from reprobuild.output.directory import read_image
from reprobuild.run.options import AUTO, OFF, STRICT, RunOptions, make_volume_absolute
from reprobuild.run.pyxis import pyxis_command

ANSWER_SECONDS = 60
# srun kills its tasks if it receives SIGTERM or SIGHUP, and treats one SIGINT as a question, unless an option turns
# that off: then it passes SIGINT on. Ranks that run themselves have their own time to end first.
TOLD = proc.SignalForwarding(
    instead={signal.SIGTERM: signal.SIGINT}, seconds=GRACE_SECONDS + 3, last=signal.SIGTERM
)
NO_QUESTION = {"SLURM_DISABLE_STATUS": "1"}
INSTALL = "run this where `srun` is, on a login node or in a job"


def run(
    out: Path, arguments: Sequence[str], context: RunContext, sink: Sink, run_options: RunOptions, options: str
) -> int:  # fmt: skip
    """Start a command by srun, and return srun's exit code.

    It is the highest of the ranks.

    Args:
        out: the output directory, at the same path on every node.
        arguments: the command.
        context: see `running.run`.
        sink: receives the output of all ranks as it comes.
        run_options: the options for the command.
        options: of srun, as a shell would read them.

    Raises:
        UsageError: see `running.run`; or the options cannot be parsed, or pyxis does not support one of them.
        EngineError: srun is absent.
    """
    if run_options.stdin or run_options.terminal or run_options.ports:
        raise UsageError(
            "-i, -t and -p are for one container, and --srun-args starts several",
            hint="start `run` itself in the job: srun --pty reprobuild run OUT -it -- bash",
        )
    lock, image = read_image(out)
    words = split_srun_args(options)
    if run_options.engine is None and has_pyxis(context.env):
        _refuse_choices(out, run_options)
        if run_options.choices != OFF and read_choices(out):
            context.say("the saved choices are not used: pyxis starts the containers")
        argv, env = pyxis_command(out, lock, image, arguments, context, run_options, words)
    else:
        proc.check_installed()
        argv, env = own_command(out, arguments, run_options, words), dict(context.env)
    context.say("")  # the command's own output follows
    return start(argv, env, sink)


def _refuse_choices(out: Path, run_options: RunOptions) -> None:
    """Refuse what only `run` itself can do with choices, since pyxis starts the containers.

    Raises:
        UsageError: choices are to be saved, or required.
    """
    if run_options.save_choices or run_options.choices == STRICT or run_options.trusted_choices:
        raise UsageError(
            "pyxis starts the containers, so that no choices of compilers are saved or used",
            hint=f"let each rank run itself: srun reprobuild run {quote_path(out)} --save-choices -- CMD",
        )


def start(argv: Sequence[str], env: Mapping[str, str], sink: Sink) -> int:
    """Start srun, pass signals on to its tasks, and return its code."""
    env = {**env, **NO_QUESTION}
    code = proc.stream(argv, env=env, purpose="start the command on the nodes", sink=sink, handing=TOLD)
    return code if code >= 0 else 128 - code


def split_srun_args(options: str) -> list[str]:
    """Split options of Slurm as a shell does.

    Raises:
        UsageError: the quotes do not match.
    """
    try:
        return shlex.split(options)
    except ValueError as err:
        raise UsageError(
            f"--srun-args {options}: {err}", hint="quote it as for a shell: --srun-args '-N 2 --exclusive'"
        ) from None


def has_pyxis(env: Mapping[str, str]) -> bool:
    """Return whether the srun of PATH has the options of pyxis.

    Raises:
        EngineError: there is no srun.
    """
    output = b""
    with contextlib.suppress(proc.ProcessFailedError):
        output = proc.run(
            ["srun", "--help"], env=env, purpose="start the command on the nodes", timeout=ANSWER_SECONDS, hint=INSTALL
        )  # fmt: skip
    return b"--container-image" in output


def own_command(
    out: Path, arguments: Sequence[str], run_options: RunOptions, options: Sequence[str]
) -> list[str]:
    """Return the command that starts each rank's own container.

    A rank has the job's whole environment.
    """
    return [
        "srun", *options, "--", *proc.own_module("reprobuild.cli", "run", str(out.absolute())),
        *words_of(run_options), "--", *arguments,
    ]  # fmt: skip


def words_of(run_options: RunOptions) -> list[str]:
    """Return the options of `run` that mean the same in any directory.

    Such a directory is for example that of `srun -D`. No option holds the value of a secret.
    """
    single = {
        "--seed": run_options.seed, "--workdir": run_options.workdir or None, "--user": run_options.user,
        "--shm-size": run_options.shm_size, "--network": run_options.network, "--engine": run_options.engine,
        "--gpu": run_options.gpus, "--profile": run_options.profile,
        "--choices": None if run_options.choices == AUTO else run_options.choices,
    }  # fmt: skip
    several = {
        "--env": run_options.variables, "--secret": run_options.hidden,
        "--volume": tuple(map(make_volume_absolute, run_options.volumes)), "--ulimit": run_options.limits,
        "--trust-choices": run_options.trusted_choices,
    }  # fmt: skip
    return [
        *(word for name, value in single.items() if value is not None for word in (name, str(value))),
        *(word for name, values in several.items() for value in values for word in (name, value)),
        *(["--save-choices"] if run_options.save_choices else []),
    ]
