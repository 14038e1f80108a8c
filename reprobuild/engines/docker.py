"""Docker as an engine, through its API.

These modules alone use the SDK. The identity of an image differs by store: the classic store names an image
by its config digest, the containerd store by its manifest digest
(https://docs.docker.com/engine/storage/containerd/).
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import tarfile
import tempfile
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, cast

import docker
import docker.errors
import msgspec
import requests
from docker.models.containers import Container

from reprobuild.engines import gpu
from reprobuild.engines.docker_gpus import run_with_gpus
from reprobuild.engines.docker_options import container_options
from reprobuild.engines.docker_streams import ContainerStreams
from reprobuild.engines.limits import REFUSED, start_with_limits
from reprobuild.engines.model import Finished, Sink, Streams, Task
from reprobuild.engines.output_files import Pieces, directory_tar, keep_tar, read_files, spool_small
from reprobuild.errors import EngineError
from reprobuild.image.engine_name import encode_named_index
from reprobuild.image.formats.docker_archive import write_docker_archive
from reprobuild.image.model import ImageDigests
from reprobuild.image.oci.read import layout_size, open_blob, read_layout
from reprobuild.image.oci.write import LAYOUT_VERSION
from reprobuild.infra.cancel import CancelToken
from reprobuild.infra.proc.signals import SignalForwarding, forward_signals
from reprobuild.infra.progress import Progress, ignore_progress

NAME = "docker"
API_SECONDS = 600
ANSWER_SECONDS = 20  # for a daemon to report its version
CHUNK = 1 << 20
LIMITS_HINT = "the daemon may not raise limits that far: ask for less with --ulimit, or leave it out"
# While an answer is read in pieces, the SDK lets exceptions of urllib3 through.
_LOST: tuple[type[Exception], ...] = (
    requests.RequestException,
    cast(Any, requests.exceptions).BaseHTTPError,
)


@contextlib.contextmanager
def open_client(env: Mapping[str, str], seconds: float | None = None) -> Iterator[docker.DockerClient]:
    """Yield a client of the daemon that the environment names.

    `seconds` bound each wait for an answer.

    Raises:
        EngineError: the daemon does not answer, refuses, or goes away.
    """
    try:
        client = docker.from_env(environment=dict(env), timeout=cast(Any, seconds or API_SECONDS))
    except docker.errors.DockerException as err:
        raise EngineError(
            f"Docker does not answer at {env.get('DOCKER_HOST', 'its default socket')}: {_describe_error(err)}",
            hint="start the Docker daemon, or point DOCKER_HOST at one that runs",
        ) from None
    try:
        yield client
    except (docker.errors.APIError, docker.errors.DockerException) as err:
        brief = _describe_error(err)
        hint = LIMITS_HINT if REFUSED in brief else "see the log of the Docker daemon"
        raise gpu.gpu_error(f"Docker refused: {brief}", brief, hint=hint) from None
    except _LOST as err:
        raise EngineError(
            f"the Docker daemon went away: {_describe_error(err)}",
            hint="start it again, and run the command again",
        ) from None
    finally:
        client.close()


def _describe_error(err: BaseException) -> str:
    lines = str(getattr(err, "explanation", "") or err).strip().splitlines()
    return lines[-1] if lines else type(err).__name__


def version(env: Mapping[str, str]) -> str | None:
    """Return the daemon's version, or None if no daemon answers."""
    try:
        with open_client(env, ANSWER_SECONDS) as client:
            return str(client.version()["Version"])
    except EngineError:
        return None


def load(
    layout: Path, reference: str, digests: ImageDigests, env: Mapping[str, str], progress: Progress = ignore_progress
) -> bool:  # fmt: skip
    """Load an OCI layout into the daemon.

    A daemon with the classic image store gets a `docker save` archive instead. It knows images by their configurations,
    and one with containerd's image store by their manifests.
    """
    with open_client(env) as client:
        containerd = has_containerd_store(client.info())
        digest = digests.manifest if containerd else digests.config
        with contextlib.suppress(docker.errors.ImageNotFound):
            if client.images.get(reference).id == digest:
                return False
        write = _write_layout_tar if containerd else _write_docker_archive
        with contextlib.closing(_stream_writes(lambda stream: write(layout, reference, stream))) as content:
            sent = _report_sent(content, layout_size(layout), progress)
            for line in cast(Any, client.api).load_image(sent) or ():
                if "error" in line:
                    raise EngineError(
                        f"Docker cannot load the image: {line['error']}", hint="see the daemon's log"
                    )
        image_id = client.images.get(reference).id
        if image_id != digest:
            raise EngineError(
                f"Docker loaded {reference} as {image_id}, not as {digest}",
                hint="another image has this name; choose one with --tag",
            )
    return True


def _report_sent(content: Iterable[bytes], total: int, progress: Progress) -> Iterator[bytes]:
    done = 0
    for chunk in content:
        yield chunk
        done += len(chunk)
        progress(min(done, total), total)


def save(reference: str, write: Callable[[bytes], object], env: Mapping[str, str]) -> None:
    """Write an image of the daemon as a tar.

    The format is that of `docker save`. `write` gets each piece as it arrives.
    """
    with open_client(env) as client:
        try:
            image = client.images.get(reference)
        except docker.errors.ImageNotFound:
            raise EngineError(
                f"Docker has no image {reference!r}, and there is no file of that name",
                hint="`docker images` lists what it has",
            ) from None
        for chunk in image.save(chunk_size=CHUNK, named=True):
            write(chunk)


def has_containerd_store(info: Mapping[str, Any]) -> bool:
    """Return whether `/info` shows a containerd image store."""
    return any("containerd" in str(value) for pair in info.get("DriverStatus") or () for value in pair)


def _write_layout_tar(layout: Path, reference: str, stream: IO[bytes]) -> None:
    """Write a layout as a tar, indexed under one name.

    It has only the files of the image. The index in the directory may have other names.
    """
    image = read_layout(layout)
    with tarfile.open(fileobj=stream, mode="w|") as tar:

        def add(name: str, content: IO[bytes], size: int) -> None:
            info = tarfile.TarInfo(name)
            info.size = size
            tar.addfile(info, content)

        add("./oci-layout", io.BytesIO(LAYOUT_VERSION), len(LAYOUT_VERSION))
        for digest in image.blobs:
            with open_blob(image, digest) as (content, size):
                add(f"./blobs/sha256/{digest}", content, size)
        index = encode_named_index(image, reference)
        add("./index.json", io.BytesIO(index), len(index))


def _write_docker_archive(layout: Path, reference: str, stream: IO[bytes]) -> None:
    write_docker_archive(msgspec.structs.replace(read_layout(layout), reference=reference), stream)


def _stream_writes(write: Callable[[IO[bytes]], None]) -> Generator[bytes, None, None]:
    """Yield a function's written bytes as it writes them.

    If the function fails, its exception is raised here instead of the end, so that the daemon never sees a
    complete stream. The caller must close the generator: the function is then stopped by a broken pipe.
    """
    reading, writing = os.pipe()

    def work() -> None:
        with os.fdopen(writing, "wb", CHUNK) as stream:
            write(stream)

    with ThreadPoolExecutor(1) as pool, os.fdopen(reading, "rb", 0) as stream:
        done = pool.submit(work)
        while chunk := stream.read(CHUNK):
            yield chunk
        done.result()


def run(reference: str, task: Task, env: Mapping[str, str]) -> Finished:
    """Run a container to its end, and always remove it."""

    def start(task: Task) -> Finished:
        def work(gpus: Mapping[str, Any]) -> Finished:
            with _create_container(client, reference, task, gpus) as container:
                return _run(container, task, pool, env)

        # The container is removed before the thread that reads its output, because the thread ends with it.
        with ThreadPoolExecutor(1) as pool, open_client(env) as client:
            return run_with_gpus(client, task.gpus, work)

    return start_with_limits(start, task)


def attach(reference: str, task: Task, env: Mapping[str, str], sink: Sink) -> int:
    """Run a container, and pass on its output.

    The output goes to `sink` as it arrives. The container is always removed.
    """

    def start(task: Task) -> int:
        def work(gpus: Mapping[str, Any]) -> int:
            with (
                _create_container(client, reference, task, gpus) as container,
                contextlib.closing(ContainerStreams(container, task)) as output,
            ):
                container.start()
                with _forward_signals(str(container.id), env), output.forward_keyboard():
                    for stream, data in output:
                        sink(stream, data)
                    return int(container.wait()["StatusCode"])

        with open_client(env) as client:
            return run_with_gpus(client, task.gpus, work)

    return start_with_limits(start, task)


def _forward_signals(container: str, env: Mapping[str, str]) -> AbstractContextManager[None]:
    """Pass signals to a running container.

    Each signal uses its own connection, because the other one is busy with the output.
    """

    def tell(signum: int) -> None:
        _send_signal(container, signum, env)

    return forward_signals(tell, lambda: tell(signal.SIGKILL), SignalForwarding())


def _send_signal(container: str, signum: int, env: Mapping[str, str]) -> None:
    """Send a signal to a container from another thread."""

    def send() -> None:
        # The daemon refuses if the container has just ended.
        with contextlib.suppress(EngineError), open_client(env, ANSWER_SECONDS) as client:
            cast(Any, client.api).kill(container, int(signum))

    threading.Thread(target=send, daemon=True, name="signal").start()


@contextlib.contextmanager
def _create_container(
    client: docker.DockerClient, reference: str, task: Task, gpus: Mapping[str, Any]
) -> Iterator[Container]:
    options: dict[str, Any] = {**gpus, **container_options(client, task, gpus.get("environment", {}))}
    if task.bypass:
        options["entrypoint"] = list(task.arguments)
    try:
        container = client.containers.create(
            reference, None if task.bypass else list(task.arguments), **options
        )
    except docker.errors.ImageNotFound:
        raise EngineError(
            f"the engine has no image {reference}", hint="`reprobuild verify OUT` loads it"
        ) from None
    try:
        yield container
    finally:
        container.remove(force=True, v=True)


def _run(container: Container, task: Task, pool: Executor, env: Mapping[str, str]) -> Finished:
    if task.outputs:
        container.put_archive("/", directory_tar(task.outputs))
    streams, output = Streams(), ContainerStreams(container)
    reading = pool.submit(_read_output, output, streams)
    container.start()
    try:
        cancel = task.cancel or CancelToken()
        with cancel.ending(lambda: _send_signal(str(container.id), signal.SIGKILL, env)):
            code = int(container.wait(timeout=task.timeout or None)["StatusCode"])
    except (requests.ReadTimeout, requests.ConnectionError) as err:
        if "timed out" not in str(err):
            raise
        raise EngineError(
            f"a container did not end within {task.timeout} s: {' '.join(task.arguments)}",
            hint="is the command waiting for input or for the network? There is none in a check",
        ) from None
    cancel.check()
    reading.result()
    return Finished(
        code=code, stdout=streams.read(1), stderr=streams.read(2),
        outputs=_collect_outputs(container, task) if task.outputs else {},
    )  # fmt: skip


def _read_output(output: ContainerStreams, streams: Streams) -> None:
    for stream, data in output:
        streams.take(stream, data)


def _collect_outputs(container: Container, task: Task) -> dict[str, bytes]:
    """Return or keep the container's output files.

    The result is {relative path: content}. With `task.kept` the files are written there, and the result is
    empty.
    """
    chunks, _ = container.get_archive(task.outputs, chunk_size=CHUNK)
    if task.kept:
        keep_tar(cast("IO[bytes]", Pieces(chunks)), task.kept)
        return {}
    with tempfile.TemporaryFile() as spool:
        spool_small(chunks, spool)
        spool.seek(0)
        return read_files(spool)
