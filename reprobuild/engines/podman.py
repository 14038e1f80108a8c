"""Podman as an engine, through its command line.

Its API would need `podman system service`, a process that users do not run, and that this program would have
to supervise. The command line is always there, and means the same for root and for any user. The user's
settings of podman are used as they are.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

from reprobuild.engines import gpu
from reprobuild.engines.limits import start_with_limits
from reprobuild.engines.model import Finished, Sink, Streams, Task
from reprobuild.engines.output_files import directory_tar, keep_tar, read_files, refuse_large
from reprobuild.engines.podman_options import container_options, gpu_options
from reprobuild.errors import EngineError
from reprobuild.image.engine_name import encode_named_index
from reprobuild.image.model import ImageDigests
from reprobuild.image.oci.read import open_blob, read_layout
from reprobuild.infra import proc
from reprobuild.infra.proc.session import clean_up
from reprobuild.infra.progress import Progress, ignore_progress
from reprobuild.infra.untrusted.regular_files import has_content

NAME = "podman"
ANSWER_SECONDS = 60  # the first call of a user makes the storage
BEGINS_SECONDS = 10  # after the first output, in which a container accepts signals
UNWELL = "`podman info` tells whether podman itself is well"
SIGNALLED = "start the command again; `podman ps --all --external` lists what an interrupted one left"


def version(env: Mapping[str, str]) -> str | None:
    """Return podman's version, or None if it is unusable."""
    try:
        argv = ["podman", "info", "--format", "{{.Version.Version}}"]
        output = proc.run(argv, env=env, purpose="ask podman for its version", timeout=ANSWER_SECONDS)
    except EngineError:
        return None
    return output.decode(errors="replace").strip()


def find_image_directory(env: Mapping[str, str]) -> str:
    """Return podman's image directory on this machine (podman-info(1)).

    It is empty if podman is a client of another machine.

    Raises:
        EngineError: it does not answer.
    """
    form = "{{.Host.ServiceIsRemote}} {{.Store.GraphRoot}}"
    remote, _, place = run_podman(
        env, "info", "--format", form, purpose="ask where images are kept"
    ).partition(" ")
    return place if remote == "false" else ""


def run_podman(
    env: Mapping[str, str], *arguments: str | Path, purpose: str, stdin: bytes | None = None,
    cwd: Path | None = None, timeout: float = 3600,
) -> str:  # fmt: skip
    """Run podman to its end, and return its stripped output.

    Raises:
        EngineError: it failed; the hint names the known remedy, if there is one.
    """
    argv = ["podman", *map(str, arguments)]
    try:
        output = proc.run(argv, env=env, purpose=purpose, stdin=stdin, cwd=cwd, timeout=timeout)
    except proc.ProcessFailedError as failed:
        raise podman_error(failed.code, failed.stderr, str(failed)) from None
    return output.decode(errors="replace").strip()


def podman_error(code: int, stderr: str, message: str) -> EngineError:
    """Return the error for podman's message, with a known remedy.

    The runtimes of podman refuse some options on some machines.
    """
    if code < 0:
        return EngineError(f"podman was ended by signal {-code}", hint=SIGNALLED)
    if "cgroups in hybrid mode not supported" in stderr:  # crun 1.8
        return EngineError(
            message,
            hint='install runc, and write `runtime = "runc"` below [engine] in ~/.config/containers/containers.conf',
        )
    if "error setting rlimit" in stderr:
        return EngineError(
            message,
            hint="podman asks for higher limits than you may have: write "
            '`default_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]` below [containers] in '
            "~/.config/containers/containers.conf",
        )
    return gpu.gpu_error(message, stderr, hint=UNWELL)


def load(
    layout: Path, reference: str, digests: ImageDigests, env: Mapping[str, str], progress: Progress = ignore_progress
) -> bool:  # fmt: skip
    """Load an OCI layout from its directory.

    Podman knows an image by the digest of its configuration.
    """
    if _find_image_id(reference, env) == digests.config:
        return False
    name = f"reprobuild-{uuid.uuid4().hex}"
    try:
        with tempfile.TemporaryDirectory(prefix="reprobuild-") as folder:
            _link_layout(layout, reference, name, Path(folder))
            run_podman(
                env, "load", "--quiet", "--input", name, purpose="load the image into podman", cwd=Path(folder)
            )  # fmt: skip
        image_id = _find_image_id(name, env)
        if image_id != digests.config:
            raise EngineError(
                f"podman loaded {reference} as {image_id}, not as {digests.config}",
                hint="is the layout of another build? Make it again with `reprobuild build`",
            )
        run_podman(env, "tag", image_id.removeprefix("sha256:"), reference, purpose="name the image")
    finally:  # removes the image as well, if it has no other name
        clean_up(lambda: run_podman(env, "rmi", name, purpose="remove a name"))
    return True


def _link_layout(layout: Path, reference: str, name: str, folder: Path) -> None:
    """Make the directory that podman loads.

    Podman takes the directory's path for the name of the image, or the name in its index. It reads only the
    files that the manifest names, and writes a layer to its disk before it knows the hash.

    Raises:
        BuildError: a file of the image is missing, or has another hash.
    """
    image = read_layout(layout)
    for digest in image.blobs:
        with open_blob(image, digest):
            pass
    if has_content(layout / "index.json", encode_named_index(image, reference)):
        (folder / name).symlink_to(layout.absolute())
        return
    (folder / name).mkdir()
    (folder / name / "index.json").write_bytes(encode_named_index(image, f"localhost/{name}"))
    for part in ("oci-layout", "blobs"):
        (folder / name / part).symlink_to((layout / part).absolute())


def _find_image_id(reference: str, env: Mapping[str, str]) -> str:
    """Return the image's id `sha256:...`, or "" if unknown."""
    try:
        argv = ["podman", "image", "inspect", "--format", "{{.Id}}", reference]
        return (
            "sha256:"
            + proc.run(argv, env=env, purpose="look for an image", timeout=ANSWER_SECONDS).decode().strip()
        )
    except proc.ProcessFailedError as failed:
        if "not known" in failed.stderr or "no such image" in failed.stderr.lower():
            return ""
        raise podman_error(failed.code, failed.stderr, str(failed)) from None


def run(reference: str, task: Task, env: Mapping[str, str]) -> Finished:
    """Run a container to its end, and always remove it."""
    return start_with_limits(lambda task: _run(reference, task, env), task)


def _run(reference: str, task: Task, env: Mapping[str, str]) -> Finished:
    streams = Streams()
    with _create_container(reference, task, env) as container:
        if task.outputs:
            folder = directory_tar(task.outputs)
            run_podman(env, "cp", "-", f"{container}:/", purpose="make the output directory", stdin=folder)
        code = _start(container, task, env, streams.take)
        outputs = _collect_outputs(container, task, env) if task.outputs else {}
    return Finished(code=code, stdout=streams.read(1), stderr=streams.read(2), outputs=outputs)


def attach(reference: str, task: Task, env: Mapping[str, str], sink: Sink) -> int:
    """Run a container, and pass on its output.

    The output goes to `sink` as it arrives. The container is always removed.
    """
    return start_with_limits(lambda task: _attach(reference, task, env, sink), task)


def _attach(reference: str, task: Task, env: Mapping[str, str], sink: Sink) -> int:
    with _create_container(reference, task, env) as container:
        tell = _Telling(container, env)
        return _start(
            container, task, env, sink, proc.SignalForwarding(tell=tell, end=lambda: _kill(container, env))
        )


class _Telling:
    """A sender of signals to a container by `podman kill`.

    Signals are sent one after the other.

    `podman start` would pass them on, too, but may lose signals while the container begins (seen on a busy
    machine).
    """

    def __init__(self, container: str, env: Mapping[str, str]) -> None:
        self._container, self._env = container, env
        self._guard = threading.Lock()

    def __call__(self, signum: int) -> None:
        threading.Thread(target=self._send, args=(signum,), daemon=True, name="signal").start()

    def _send(self, signum: int) -> None:
        until = time.monotonic() + BEGINS_SECONDS
        with self._guard:
            while True:
                with contextlib.suppress(EngineError):  # it does not run yet, or has just ended
                    run_podman(
                        self._env,
                        "kill",
                        "--signal",
                        str(int(signum)),
                        self._container,
                        purpose="hand on a signal",
                    )
                    return
                if time.monotonic() > until:
                    return
                time.sleep(0.1)


def _kill(container: str, env: Mapping[str, str]) -> None:
    """End the command of a container.

    Ending `podman start`, which passes signals on, would leave the container running.
    """
    with contextlib.suppress(EngineError):  # it has just ended
        run_podman(env, "kill", container, purpose="end a container")


@contextlib.contextmanager
def _create_container(reference: str, task: Task, env: Mapping[str, str]) -> Iterator[str]:
    devices, visible = gpu_options(task.gpus)
    options, environment, stdin = container_options(task, visible, env)
    options += devices
    arguments = task.arguments
    if task.bypass:
        options += ["--entrypoint", arguments[0]]
        arguments = arguments[1:]
    container = f"reprobuild-{uuid.uuid4().hex}"
    removal = "rm", "--force", "--ignore", "--volumes", "--time", "0", container
    with contextlib.ExitStack() as stack:  # also for an interrupted `create`
        stack.callback(clean_up, lambda: run_podman(env, *removal, purpose="remove a container"))
        try:
            run_podman(
                environment, "create", "--name", container, *options, reference, *arguments,
                purpose="make a container", stdin=stdin,
            )  # fmt: skip
        except EngineError as err:
            if "not known" in str(err) or "no such image" in str(err).lower():
                raise EngineError(
                    f"the engine has no image {reference}", hint="`reprobuild verify OUT` loads it"
                ) from None
            raise
        yield container


def _start(
    container: str, task: Task, env: Mapping[str, str], sink: Sink, handing: proc.SignalForwarding | None = None
) -> int:  # fmt: skip
    """Start a container, and return its exit code.

    Its output goes to `sink`.
    """
    tail = bytearray()

    def keep(stream: int, data: bytes) -> None:
        if stream == 2:
            tail.extend(data)
            del tail[:-4096]
        sink(stream, data)

    argv = ["podman", "start", "--attach", *(["--sig-proxy=false"] if handing else []), container]
    try:
        if task.stdin and handing:
            argv.insert(2, "--interactive")
            code = proc.interact(
                argv, env=env, purpose="run a container", sink=keep, terminal=task.terminal, handing=handing
            )
        else:
            code = proc.stream(
                argv, env=env, purpose="run a container", sink=keep, timeout=task.timeout, handing=handing,
                watch=task.check,
            )  # fmt: skip
    except proc.ProcessTimeoutError:
        raise EngineError(
            f"a container did not end within {task.timeout} s: {' '.join(task.arguments)}",
            hint="is the command waiting for input or for the network? There is none in a check",
        ) from None
    if 0 <= code < 125:
        return code
    # Podman uses these codes for its own failures, too; the container's own code counts only if it has run.
    argv = ["container", "inspect", "--format", "{{.State.Status}} {{.State.ExitCode}}", container]
    status, _, exit_code = run_podman(env, *argv, purpose="ask how a container ended").partition(" ")
    if code < 0 or status not in ("exited", "stopped"):
        stderr = tail.decode(errors="replace").strip()
        message = (
            f"podman could not run a container: {stderr.splitlines()[-1] if stderr else f'exit code {code}'}"
        )
        raise podman_error(code, stderr, message)
    return int(exit_code)


def _collect_outputs(container: str, task: Task, env: Mapping[str, str]) -> dict[str, bytes]:
    """Return or keep the container's output files.

    The result is {relative path: content}. With `task.kept` the files are written there, and the result is
    empty.
    """
    with tempfile.TemporaryFile(dir=task.kept) as spool:

        def keep(stream: int, data: bytes) -> None:
            if stream == 1:
                if not task.kept:
                    refuse_large(spool.tell() + len(data))
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
        return read_files(spool)
