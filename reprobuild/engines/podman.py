"""podman, through its command line.

Its API would need `podman system service`, a process that a user does not have running and that would have to
be looked after; the command line is there wherever podman is, and means the same for root and for any user.
The user's settings of podman are used as they are.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import tarfile
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from reprobuild import proc
from reprobuild.engines import gpu
from reprobuild.engines.kept import keep_tar
from reprobuild.engines.model import Finished, Sink, Streams, Task
from reprobuild.errors import EngineError

NAME = "podman"
ANSWER_SECONDS = 60  # the first call of a user makes the storage
# Variables that would change podman itself: they are given on its command line, all others by its
# environment, where no other user of the machine can read them.
OF_PODMAN = re.compile(
    r"LD_.*|GO[A-Z]+|_?CONTAINERS?_.*|STORAGE_.*|BUILDAH_.*|REGISTRY_.*|REGISTRIES_.*|PODMAN_.*|XDG_.*|DOCKER_.*|SSL_.*"
    r"|LISTEN_.*|NOTIFY_SOCKET|DBUS_.*|TMPDIR|HOME|PATH|USER|SHELL|LANG|LC_.*|[Hh][Tt][Tt][Pp].*|[A-Za-z]+_(proxy|PROXY)"
)
UNWELL = "`podman info` tells whether podman itself is well"
SIGNALLED = "start the command again; `podman ps --all --external` lists what an interrupted one left"


def version(env: Mapping[str, str]) -> str | None:
    """Return podman's version, or None where it is absent or cannot work."""
    try:
        argv = ["podman", "info", "--format", "{{.Version.Version}}"]
        said = proc.run(argv, env=env, purpose="ask podman for its version", timeout=ANSWER_SECONDS)
    except EngineError:
        return None
    return said.decode(errors="replace").strip()


def call(
    env: Mapping[str, str], *arguments: str | Path, purpose: str, stdin: bytes | None = None,
    cwd: Path | None = None, timeout: float = 3600,
) -> str:  # fmt: skip
    """Run podman to its end and return what it printed, without white space around it.

    Raises:
        EngineError: it failed; the hint names the known remedy, where there is one.
    """
    argv = ["podman", *map(str, arguments)]
    try:
        said = proc.run(argv, env=env, purpose=purpose, stdin=stdin, cwd=cwd, timeout=timeout)
    except proc.Failed as failed:
        raise explained(failed.code, failed.stderr, str(failed)) from None
    return said.decode(errors="replace").strip()


def explained(code: int, stderr: str, what: str) -> EngineError:
    """Return the error for what podman said, with the remedies for what its runtimes refuse on some machines."""
    if code < 0:
        return EngineError(f"podman was ended by signal {-code}", hint=SIGNALLED)
    if "cgroups in hybrid mode not supported" in stderr:  # crun 1.8
        return EngineError(
            what,
            hint='install runc, and write `runtime = "runc"` below [engine] in ~/.config/containers/containers.conf',
        )
    if "error setting rlimit" in stderr:
        return EngineError(
            what,
            hint="podman asks for higher limits than you may have: write "
            '`default_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]` below [containers] in '
            "~/.config/containers/containers.conf",
        )
    return gpu.refusal(what, stderr, hint=UNWELL)


def load(layout: Path, reference: str, digests: Sequence[str], env: Mapping[str, str]) -> bool:
    """Load an OCI layout, from its folder; podman knows an image by the digest of its configuration."""
    if _image_id(reference, env) in digests:
        return False
    name = f"reprobuild-{uuid.uuid4().hex}"
    with tempfile.TemporaryDirectory(prefix="reprobuild-") as folder:
        # podman takes the path of a layout for the name of the image, so it gets one of its own.
        (Path(folder) / name).symlink_to(layout.absolute())
        call(env, "load", "--quiet", "--input", name, purpose="load the image into podman", cwd=Path(folder))
    try:
        found = _image_id(name, env)
        if found not in digests:
            raise EngineError(
                f"podman loaded {reference} as {found}, not as {' or '.join(digests)}",
                hint="is the layout of another build? Make it again with `reprobuild build`",
            )
        call(env, "tag", found.removeprefix("sha256:"), reference, purpose="name the image")
    finally:
        with contextlib.suppress(EngineError):
            call(env, "rmi", name, purpose="remove a name")  # and the image, where it has no other
    return True


def _image_id(reference: str, env: Mapping[str, str]) -> str:
    """Return `sha256:...`, or nothing where podman has no such image."""
    try:
        argv = ["podman", "image", "inspect", "--format", "{{.Id}}", reference]
        return "sha256:" + proc.run(argv, env=env, purpose="look for an image").decode().strip()
    except proc.Failed as failed:
        if "not known" in failed.stderr or "no such image" in failed.stderr.lower():
            return ""
        raise explained(failed.code, failed.stderr, str(failed)) from None


def run(reference: str, task: Task, env: Mapping[str, str]) -> Finished:
    """Run a container to its end, and remove it whatever happens."""
    streams = Streams()
    with _container(reference, task, env) as container:
        if task.outputs:
            folder = _folder_tar(task.outputs)
            call(env, "cp", "-", f"{container}:/", purpose="make the folder of results", stdin=folder)
        code = _start(container, task, env, streams.take)
        outputs = _outputs(container, task, env) if task.outputs else {}
    return Finished(code=code, stdout=streams.of(1), stderr=streams.of(2), outputs=outputs)


def attach(reference: str, task: Task, env: Mapping[str, str], sink: Sink) -> int:
    """Run a container and hand on its output as it comes; the container is removed whatever happens."""
    with _container(reference, task, env) as container:
        return _start(container, task, env, sink)


@contextlib.contextmanager
def _container(reference: str, task: Task, env: Mapping[str, str]) -> Iterator[str]:
    # Without the proxies of the host, which podman hands on unless told otherwise, and without a log.
    options = ["--pull", "never", "--network", task.network, "--shm-size", "1g", "--log-driver", "none"]
    options += ["--http-proxy=false"]
    theirs = dict(env)
    devices, visible = _gpus(task.gpus)
    options += devices
    for name, value in {**visible, **task.environment}.items():
        if OF_PODMAN.fullmatch(name):
            options += ["--env", f"{name}={value}"]
        else:
            options += ["--env", name]
            theirs[name] = value
    for host, inside in task.volumes:
        options += ["--volume", f"{host}:{inside}:rw"]
    arguments = task.arguments
    if task.bypass:
        options += ["--entrypoint", arguments[0]]
        arguments = arguments[1:]
    try:
        said = call(theirs, "create", *options, reference, *arguments, purpose="make a container")
    except EngineError as err:
        if "not known" in str(err) or "no such image" in str(err).lower():
            raise EngineError(
                f"the engine has no image {reference}", hint="`reprobuild verify OUT` loads it"
            ) from None
        raise
    container = said.splitlines()[-1]
    try:
        yield container
    finally:
        with contextlib.suppress(EngineError):  # what went wrong before is the news
            call(env, "rm", "--force", "--volumes", "--time", "0", container, purpose="remove a container")


def _gpus(gpus: str) -> tuple[list[str], dict[str, str]]:
    """Return options and variables for GPUs: names of CDI, or the nodes of AMD's with the groups that own them.

    A user's own groups are no others in a container, but can be kept as they are (with crun alone).
    https://docs.podman.io/en/stable/markdown/podman-run.1.html#device-host-device-container-device-permissions
    """
    if not gpus:
        return [], {}
    if gpu.vendor(gpus) != gpu.AMD:
        return [word for name in gpu.cdi_names(gpus) for word in ("--device", name)], {}
    groups = gpu.amd_groups() if os.geteuid() == 0 else ("keep-groups",)
    nodes = [word for node, inside in gpu.amd_devices().items() for word in ("--device", f"{node}:{inside}")]
    visible = {gpu.AMD_VISIBLE: gpus} if gpu.ids(gpus) else {}
    return [*nodes, *(word for group in groups for word in ("--group-add", group))], visible


def _start(container: str, task: Task, env: Mapping[str, str], sink: Sink) -> int:
    """Start a container, hand on its output, and return its exit code."""
    tail = bytearray()

    def keep(stream: int, data: bytes) -> None:
        if stream == 2:
            tail.extend(data)
            del tail[:-4096]
        sink(stream, data)

    argv = ["podman", "start", "--attach", container]
    try:
        code = proc.stream(argv, env=env, purpose="run a container", sink=keep, timeout=task.timeout)
    except proc.TimedOut:
        raise EngineError(
            f"a container did not end within {task.timeout} s: {' '.join(task.arguments)}",
            hint="is the command waiting for input or for the network? There is none in a check",
        ) from None
    if 0 <= code < 125:
        return code
    # podman uses these codes for its own failures, too; only the container's own count if it has run.
    argv = ["container", "inspect", "--format", "{{.State.Status}} {{.State.ExitCode}}", container]
    status, _, theirs = call(env, *argv, purpose="ask how a container ended").partition(" ")
    if code < 0 or status not in ("exited", "stopped"):
        said = tail.decode(errors="replace").strip()
        what = f"podman could not run a container: {said.splitlines()[-1] if said else f'exit code {code}'}"
        raise explained(code, said, what)
    return int(theirs)


def _folder_tar(path: str) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        info = tarfile.TarInfo(path.strip("/"))
        info.type, info.mode = tarfile.DIRTYPE, 0o777
        tar.addfile(info)
    return stream.getvalue()


def _outputs(container: str, task: Task, env: Mapping[str, str]) -> dict[str, bytes]:
    """Return the regular files below the folder, by their path relative to it, or keep them where they belong."""
    found = {}
    with tempfile.TemporaryFile(dir=task.kept) as spool:

        def keep(stream: int, data: bytes) -> None:
            if stream == 1:
                spool.write(data)

        argv = ["podman", "cp", f"{container}:{task.outputs}", "-"]
        code = proc.stream(argv, env=env, purpose="read the results", sink=keep)
        if code:
            raise EngineError(
                f"podman could not give the results in {task.outputs}: exit code {code}",
                hint=UNWELL,
            )
        spool.seek(0)
        if task.kept:
            keep_tar(spool, task.kept)
            return {}
        with tarfile.open(fileobj=spool) as tar:
            for info in tar:
                opened = tar.extractfile(info) if info.isreg() else None
                if opened:
                    found[info.name.partition("/")[2]] = opened.read()
    return found
