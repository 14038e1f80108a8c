"""The srun command line that starts an image through pyxis.

pyxis makes the container as the user, from the squashfs beside the layout. It gives the command the job's variables,
the image's own before them, and only those of `--container-env` in their place; the entrypoint is started as a part of
the command, so that a site's setting for entrypoints has no effect. Values are in the environment of srun, which
`--export` names, and not on its command line; but variables that srun, pyxis or enroot themselves would read are set
only in the container.

https://github.com/NVIDIA/pyxis/wiki/Usage, https://github.com/NVIDIA/enroot/blob/master/doc/configuration.md,
https://slurm.schedmd.com/srun.html
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from reprobuild.context import RunContext
from reprobuild.engines.model import Task
from reprobuild.engines.program_variables import OF_EACH_PROGRAM
from reprobuild.errors import UsageError
from reprobuild.image.formats.single_file import is_single_of_here, single_file_name
from reprobuild.image.model import Image
from reprobuild.infra.shell_words import quote_path
from reprobuild.lock.model import Lock
from reprobuild.recipe.image_config import image_config
from reprobuild.run.options import RunOptions
from reprobuild.run.pyxis_gpus import CAPABILITIES, COUNTED, are_gpus_renumbered, hook_variables
from reprobuild.run.run import image_variables, prepare
from reprobuild.store.blob_hash import hash_open, is_still
from reprobuild.store.store import Store

# Variables that would change srun here, or pyxis and enroot, which is written in bash, on the nodes.
OF_SRUN = re.compile(rf"{OF_EACH_PROGRAM}|SLURM.*|SRUN_.*|SPANK_.*|PMIX?_.*|MUNGE_.*|PYXIS_.*|ENROOT_.*")
# Options of this module alone: the later of two would win, and a named container may be that of another image.
OURS = (
    "--export", "--container-image", "--container-name", "--container-workdir", "--container-mounts",
    "--container-env", "--container-mount-home", "--container-entrypoint",
)  # fmt: skip
_SHORTEST = len("--exp")  # srun accepts an unambiguous prefix of an option's name


def pyxis_command(
    out: Path, lock: Lock, image: Image, arguments: Sequence[str], context: RunContext, run_options: RunOptions,
    options: Sequence[str],
) -> tuple[list[str], dict[str, str]]:  # fmt: skip
    """Return pyxis' command for the image, and srun's environment.

    Raises:
        UsageError: there is no squashfs, or it is not that of the image; or pyxis does not support an option.
    """
    _refuse_options(run_options, options)
    squashfs = _find_squashfs(out, image, context)
    ready = prepare(lock, (), run_options, context.env)
    frozen_variables = image_variables(lock)
    gpus, messages = hook_variables(run_options.gpus, ready.task.gpus, context.env, options)
    for line in (*ready.said, *messages):
        context.say(line)
    mounts = [
        f"{_check_mount_path(host)}:{_check_mount_path(inside)}{':ro' if inside in ready.task.read_only else ''}"
        for host, inside in ready.task.volumes
    ]
    variables, inside = _variables(ready.task, context.env)
    for name, value in gpus.items():
        if (
            name != CAPABILITIES or name not in frozen_variables
        ):  # an image that states the driver capabilities it needs has priority
            variables.setdefault(name, value)
    names = sorted(name for name in variables if not name.startswith("SLURM"))  # srun passes its own on
    over = sorted(set(names) & set(frozen_variables))
    env_words = ["-u", COUNTED] * are_gpus_renumbered(ready.task.gpus, ready.task.environment)
    env_words += [f"{name}={value}" for name, value in sorted(inside.items())]
    argv = [
        "srun", *options, f"--container-image={squashfs}", "--no-container-mount-home", "--no-container-entrypoint",
        f"--container-workdir={run_options.workdir or lock.workdir}",
        *([f"--container-mounts={','.join(mounts)}"] if mounts else []),
        *([f"--container-env={','.join(over)}"] if over else []),
        f"--export={','.join(names) or 'NIL'}", "--",
        *(["/usr/bin/env", *env_words] if env_words else []),
        *image_config(lock).entrypoint, *arguments,
    ]  # fmt: skip
    return argv, {**context.env, **variables}


def _refuse_options(run_options: RunOptions, options: Sequence[str]) -> None:
    values = {
        "--user": run_options.user,
        "--shm-size": run_options.shm_size,
        "--network": run_options.network,
    }
    if refused := [
        *(name for name, value in values.items() if value is not None),
        *(["--ulimit"] * bool(run_options.limits)),
    ]:
        raise UsageError(
            f"pyxis cannot be told {', '.join(refused)}: it runs as the caller, with the node's network and limits",
            hint="leave it out, or choose --engine apptainer",
        )
    for word in options:
        head = word.partition("=")[0].replace("--no-container-", "--container-")
        if len(head) >= _SHORTEST and any(option.startswith(head) for option in OURS):
            raise UsageError(
                f"--srun-args {word}: with pyxis, `run` says this itself",
                hint="leave it out; --env and --secret hand variables on, -v directories; or choose --engine apptainer",
            )


def _find_squashfs(out: Path, image: Image, context: RunContext) -> Path:
    """Return the squashfs to start, after comparing it with `image.json` and with the record of the store.

    The record shows that it was written from the layers of the image: `image.json` can state any file.
    """
    squashfs = (out / single_file_name("sqsh")).absolute()
    lock, place = quote_path(out / "reprobuild.lock"), quote_path(out)
    remedy = f"write it: reprobuild build {lock} -o {place} --format squashfs; or choose --engine apptainer"
    if not image.sqsh or not squashfs.is_file():
        raise UsageError(f"pyxis starts {squashfs}, which is not there", hint=remedy)
    context.say(f"comparing {squashfs.name} with its digest")
    digest = _sha256(squashfs, context.store)
    known = is_single_of_here(image, "sqsh", f"sha256:{digest}", context.store)
    context.store.release()  # the command may go on for days
    if f"sha256:{digest}" != image.sqsh:
        raise UsageError(
            f"{squashfs} is not the one of this image: it is sha256:{digest}, and should be {image.sqsh}",
            hint=remedy,
        )
    if not known:
        raise UsageError(
            f"{squashfs} is not known to be of this image: this user's reprobuild did not write it",
            hint=f"{remedy}; if another user of a shared store wrote it, join that store: reprobuild store join DIR",
        )
    return squashfs


def _sha256(path: Path, store: Store) -> str:
    """Return the sha256 (hex) of a file.

    It is remembered while the file is the same and was not written to.
    """
    now = path.stat()
    facts = (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns)
    key = hashlib.sha256(f"squashfs\0{path}\0{facts}".encode("utf-8", "surrogateescape")).hexdigest()
    known = store.recall(key)
    if isinstance(known, str):
        return known
    digest, status = hash_open(path)
    if is_still(path.resolve(), status):
        with contextlib.suppress(OSError):  # a store that cannot be written to costs another reading
            store.remember(key, digest)
    return digest


def _variables(task: Task, env: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the variables for srun to pass on, and for the container.

    The second are set in the container alone.
    """
    if strange := [name for name in task.environment if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)]:
        raise UsageError(
            f"pyxis cannot be told the variable {strange[0]!r}",
            hint="give it a name of letters, digits and _",
        )
    inside = {
        name: value
        for name, value in task.environment.items()
        if OF_SRUN.fullmatch(name) and env.get(name) != value
    }
    if shown := sorted(inside.keys() & task.hidden):
        raise UsageError(
            f"pyxis cannot be given {shown[0]} out of sight: srun itself would look at it",
            hint="give it another name, or choose --engine apptainer",
        )
    return {name: value for name, value in task.environment.items() if name not in inside}, inside


def _check_mount_path(path: str) -> str:
    if re.search("[,:]", path):
        raise UsageError(
            f"pyxis cannot be told the directory {path}: its mounts are separated by commas and colons",
            hint="mount it by a link with another name, or choose --engine apptainer",
        )
    return path
