"""Apptainer or SingularityCE as an engine, through its command line.

It runs a SIF that we write ourselves. Apptainer has no store of images: a SIF for each image lies in the
user's cache directory (`Cache`). A container gets the isolation that Apptainer can give: its own /tmp and
process numbers, no variable, directory or network of the host. Unlike Docker's, it runs as the calling user.
Its writes outside /tmp, /var/tmp, mounted directories and the home of a user other than root go into memory,
limited by the site's settings (`sessiondir max size` in apptainer.conf).

https://apptainer.org/docs/user/latest/cli/apptainer_exec.html
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from reprobuild.engines.apptainer_cache import Cache, CachedSif
from reprobuild.engines.apptainer_gpus import check_gpus, gpu_options, visible_gpu_variables
from reprobuild.engines.image_records import check_digests
from reprobuild.engines.limits import limits_of_caller
from reprobuild.engines.model import Finished, Sink, Streams, Task
from reprobuild.engines.output_files import keep_directory, read_directory
from reprobuild.errors import EngineError
from reprobuild.image.formats.single_file import write_sif
from reprobuild.image.formats.squashfs_write import find_program
from reprobuild.image.model import ImageDigests
from reprobuild.image.oci.read import read_layout
from reprobuild.infra.directory_fd import remove
from reprobuild.infra.proc import comma_separated, interact, stream
from reprobuild.infra.proc import run as run_program
from reprobuild.infra.proc.errors import ProcessTimeoutError
from reprobuild.infra.proc.signals import SignalForwarding
from reprobuild.infra.progress import Progress, ignore_progress

NAME = "apptainer"
# A program, the oldest version that leaves variables unevaluated (`--no-eval`), and the prefix of its
# variables.
PROGRAMS = {"apptainer": ((1, 1), "APPTAINER"), "singularity": ((3, 10), "SINGULARITY")}
ANSWER_SECONDS = 60  # on a node that is busy, with its programs on a network disk
DEFINITION = "# A SIF that reprobuild made of an OCI layout, to run it.\n"
TAIL_LINES = 20
FATAL, FATAL_CODE = "FATAL:", 255
# Of its own settings those with its working directories; all others change the container.
_SETTINGS = {
    f"{prefix}_{name}" for _, prefix in PROGRAMS.values() for name in ("TMPDIR", "CACHEDIR", "CONFIGDIR")
}
_VERSION = re.compile(r"(\d+)\.(\d+)")
_ISOLATION = ("--containall", "--no-mount", "bind-paths", "--no-eval", "--writable-tmpfs")
_SQUASHFS = "install squashfs-tools 4.5 or newer, or choose another engine with --engine"
_INSTALL = "install Apptainer 1.1 or newer, or choose another engine with --engine"


def version(env: Mapping[str, str]) -> str | None:
    """Return the version of the program on PATH, or None."""
    program = _find_program(env)
    return program and program[1]


def _find_program(env: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the program's name and version, or None."""
    for name in PROGRAMS:
        with contextlib.suppress(EngineError):
            answer = run_program([name, "version"], env=env, purpose="run containers", timeout=ANSWER_SECONDS)
            text = answer.decode(errors="replace").strip()
            if _VERSION.match(text):
                return name, text
    return None


def find_usable_program(env: Mapping[str, str]) -> str:
    """Return the name of a usable program.

    Raises:
        EngineError: it is missing or too old.
    """
    program = _find_program(env)
    if program is None:
        raise EngineError("neither `apptainer` nor `singularity` answers", hint=_INSTALL)
    name, text = program
    oldest, _ = PROGRAMS[name]
    numbers = _VERSION.match(text)
    if numbers is None or tuple(map(int, numbers.groups())) < oldest:
        raise EngineError(
            f"{name} {text} is too old: it would evaluate variables as a shell does", hint=_INSTALL
        )
    return name


def load(
    layout: Path, reference: str, digests: ImageDigests, env: Mapping[str, str], progress: Progress = ignore_progress
) -> bool:  # fmt: skip
    """Write an OCI layout as a SIF into the cache.

    An intact SIF that is already there stays.
    """
    find_usable_program(env)
    cache = Cache.open_user_cache(env)
    image = read_layout(layout)
    check_digests(image, digests)
    with cache.locked():
        sif, named = cache.find_by_manifest(image.manifest), cache.find(reference)
        is_intact = sif is not None and cache.is_complete(sif)
        if not is_intact:
            _check_squashfs(env)
            with cache.open_new(image) as folder:
                write_sif(image, folder, DEFINITION, env)
        cache.call(reference, image.manifest)
        return not is_intact or named != sif


def _check_squashfs(env: Mapping[str, str]) -> None:
    try:
        find_program(env)
    except EngineError as err:
        raise EngineError(str(err), hint=_SQUASHFS) from None


def run(reference: str, task: Task, env: Mapping[str, str]) -> Finished:
    """Run a container to its end, and remove it."""
    streams = Streams()
    with _scratch_directory() as folder:
        code = _follow(reference, task, env, folder, streams.take)
        return Finished(
            code=code, stdout=streams.read(1), stderr=streams.read(2),
            outputs=_collect_outputs(folder / "outputs", task.kept) if task.outputs else {},
        )  # fmt: skip


def attach(reference: str, task: Task, env: Mapping[str, str], sink: Sink) -> int:
    """Run a container, and pass on its output.

    The output goes to `sink` as it arrives. The container is removed afterwards.
    """
    with _scratch_directory() as folder:
        return _follow(reference, task, env, folder, sink, SignalForwarding())


@contextlib.contextmanager
def _scratch_directory() -> Iterator[Path]:
    """Yield a directory for a container's files, and remove it.

    Directories that even their owner may not read are removed, too.
    """
    folder = Path(tempfile.mkdtemp(prefix="reprobuild-"))
    try:
        for name in ("work", "outputs"):
            (folder / name).mkdir()
        yield folder
    finally:
        with contextlib.suppress(OSError):  # the container's result is the one to report
            remove(folder)


def _follow(
    reference: str, task: Task, env: Mapping[str, str], folder: Path, sink: Sink,
    handing: SignalForwarding | None = None,
) -> int:  # fmt: skip
    program = find_usable_program(env)
    _check_user(task.user)
    if task.ports:
        raise EngineError(
            "Apptainer publishes no ports",
            hint="replace -p by --network host: a server is then reached at the port that it listens on",
        )
    cache = Cache.open_user_cache(env)
    sif = cache.find(reference)
    if sif is None or not cache.file(sif).exists():
        raise EngineError(f"the engine has no image {reference}", hint="`reprobuild verify OUT` loads it")
    tail: deque[bytes] = deque(maxlen=TAIL_LINES)

    def watch(number: int, data: bytes) -> None:
        if number == 2:
            tail.append(data)
        sink(number, data)

    if task.gpus:
        check_gpus(
            [program, "--quiet", "exec", *_ISOLATION],
            cache.file(sif),
            task.gpus,
            _program_environment(program, task, env),
        )
    argv = [
        *_limit_command(task),
        program,
        "--silent",
        *_container_arguments(cache.file(sif), sif, task, folder),
    ]
    settings = _program_environment(program, task, env)
    try:
        if task.stdin and handing:
            code = interact(
                argv,
                sink=watch,
                env=settings,
                purpose="run a container",
                terminal=task.terminal,
                handing=handing,
            )
        else:
            code = stream(
                argv,
                sink=watch,
                env=settings,
                purpose="run a container",
                timeout=task.timeout,
                handing=handing,
                watch=task.check,
            )
    except ProcessTimeoutError:
        raise EngineError(
            f"a container did not end within {task.timeout} s: {' '.join(task.arguments)}",
            hint="is the command waiting for input or for the network? There is none in a check",
        ) from None
    if code == FATAL_CODE:
        _check_fatal_error(b"".join(tail), task)
    return code if code >= 0 else 128 - code


def _check_fatal_error(stderr: bytes, task: Task) -> None:
    """Raise Apptainer's own error, if it reported one.

    A command may have exited with the same code.
    """
    complaints = [line for line in stderr.decode(errors="replace").splitlines() if line.startswith(FATAL)]
    if not complaints:
        return
    complaint = complaints[-1].removeprefix(FATAL).strip()
    if (
        task.network == "none"
        and complaint.startswith("container creation failed")
        and "network" in complaint
    ):
        raise EngineError(
            f"Apptainer cannot cut the network off: {complaint}",
            hint="nothing was run with a network; let the site's apptainer.conf allow `--net --network none`, "
            "or choose another engine with --engine",
        )
    raise EngineError(f"Apptainer refused: {complaint}", hint="try the SIF by hand: apptainer exec FILE true")


def _container_arguments(image: Path, sif: CachedSif, task: Task, folder: Path) -> list[str]:
    """Return the arguments after the program's name."""
    mounts = [*task.volumes, *([(str(folder / "outputs"), task.outputs)] if task.outputs else [])]
    network = {"none": ("--net", "--network", "none"), "host": ()}.get(
        task.network, ("--net", "--network", task.network)
    )
    # Root's home is in the image; any other home is not, and becomes an empty directory.
    home = ("--no-home",) if os.geteuid() == 0 else ()
    folder_of_start = task.workdir if task.workdir and task.bypass else sif.workdir
    return [
        "exec" if task.bypass else "run", *_ISOLATION, *home, *network, *gpu_options(task.gpus),
        "--workdir", str(folder / "work"), "--pwd", folder_of_start,
        *(
            word for source, target in mounts
            for word in ("--mount", _mount_option(source, target, read_only=target in task.read_only))
        ),
        str(image), *task.arguments,
    ]  # fmt: skip


def _mount_option(source: str, target: str, *, read_only: bool) -> str:
    mode = ("ro",) if read_only else ()
    return comma_separated(("type=bind", f"source={source}", f"destination={target}", *mode))


def _limit_command(task: Task) -> list[str]:
    """Return the words that start a program with limits.

    The limits are the task's. Without limits it has the caller's.
    """
    limits = limits_of_caller(msgspec.structs.replace(task, generous=False))
    options = [f"--{limit.name}={_limit_text(limit.soft)}:{_limit_text(limit.hard)}" for limit in limits]
    return ["prlimit", *options, "--"] if options else []


def _limit_text(value: int) -> str:
    return "unlimited" if value == -1 else str(value)


def _check_user(user: str) -> None:
    if user not in ("", "caller", f"{os.geteuid()}:{os.getegid()}"):
        raise EngineError(
            f"Apptainer runs a container as the user who calls it, and not as {user}",
            hint="leave --user out, or choose another engine with --engine",
        )


def _program_environment(program: str, task: Task, env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the program.

    A container sees its variables that have the program's prefix. Proxies would be passed to the container,
    and with them a password in their address; a task names those that it needs.
    """
    prefixes = tuple(prefix for _, prefix in PROGRAMS.values())
    prefix = PROGRAMS[program][1]
    environment = {
        name: value
        for name, value in env.items()
        if (not name.startswith(prefixes) or name in _SETTINGS) and not name.lower().endswith("_proxy")
    }
    variables = {**visible_gpu_variables(task.gpus, env), **task.environment}
    for name in variables:
        if name == "HOME" or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise EngineError(
                f"Apptainer cannot set the variable {name!r}",
                hint="it sets HOME itself, and by a shell all that a shell can name",
            )
    return {**environment, **{f"{prefix}ENV_{name}": value for name, value in variables.items()}}


def _collect_outputs(folder: Path, destination: Path | None = None) -> dict[str, bytes]:
    """Return or keep the container's output files.

    The result is {relative path: content}. With `destination` the files are moved there, and the result is empty. No
    link is followed.
    """
    if destination:
        keep_directory(folder, destination)
        return {}
    return read_directory(folder)
