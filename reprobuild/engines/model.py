"""The interface of an engine: a module with these functions.

The registry of this package lists the engines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from reprobuild.image.model import ImageDigests
from reprobuild.infra.cancel import CancelToken
from reprobuild.infra.progress import Progress, ignore_progress

DEFAULT_NETWORK = "default"  # the engine's own choice for a container with a network


class Finished(Struct, frozen=True, kw_only=True):
    """The result of a container: code, streams and files.

    The code is its exit code. `outputs` has the files below its output directory by name, without those that
    were put into a directory of the host (`Task.kept`). `Streams` describes how the streams are cut.
    """

    code: int
    stdout: bytes
    stderr: bytes
    outputs: dict[str, bytes] = {}


class Limit(Struct, frozen=True, kw_only=True):
    """A resource limit, named as in limits.conf(5); -1 is unlimited."""

    name: str
    soft: int
    hard: int


class Port(Struct, frozen=True, kw_only=True):
    """A TCP port of a container, published at an address and port of this machine."""

    address: str
    host: int
    inside: int


class Task(Struct, frozen=True, kw_only=True):
    """A task for a container, by default without network.

    `arguments` follow the image's entrypoint, or replace it if `bypass` is true. `outputs` names a directory
    inside the container that is made before the start and read afterwards; it may be empty. Its regular files
    go into memory, or into the directory `kept` of the host, which is empty before. `volumes` are (directory
    of the host, directory in the container). `timeout` is in seconds; 0 is unlimited. `workdir` is the
    directory it starts in, empty for the image's; Apptainer uses it only with `bypass`. `gpus` is empty for
    no GPU, "all", or ids separated by commas: indices, UUIDs, MIG ids, names of CDI. `read_only` are the
    read-only volumes, by their directory in the container. `user` is empty for the image's, "caller" for the
    caller of this program (who then owns new files in volumes), else "UID:GID". `shared_memory` is the size
    of /dev/shm in bytes. `generous` raises limits as far as training needs, `limits` are the requested ones.
    The values of the variables in `hidden` must not appear on a command line. `attach` passes this process's
    standard input on if `stdin` is true, and gives the command a terminal if `terminal` is true, too. `ports` need
    the network `DEFAULT_NETWORK`, or another one that the engine can publish from. `cancel` ends the container of
    `run` from another thread, which raises `CancelledError`.
    """

    arguments: tuple[str, ...]
    environment: dict[str, str] = {}
    bypass: bool = False
    outputs: str = ""
    kept: Path | None = None
    network: str = "none"
    volumes: tuple[tuple[str, str], ...] = ()
    timeout: int = 1800
    gpus: str = ""
    workdir: str = ""
    read_only: frozenset[str] = frozenset()
    user: str = ""
    shared_memory: int = 1 << 30
    generous: bool = False
    limits: tuple[Limit, ...] = ()
    hidden: frozenset[str] = frozenset()
    stdin: bool = False
    terminal: bool = False
    ports: tuple[Port, ...] = ()
    cancel: CancelToken | None = None

    @property
    def check(self) -> Callable[[], None] | None:
        """The function that raises `CancelledError` when the container must end, if any."""
        return None if self.cancel is None else self.cancel.check


def identity_variables(user: str) -> dict[str, str]:
    """Return variables for a user unknown to the image.

    Programs then find a name, and a home to write to.

    Args:
        user: "UID:GID", empty for the image's.
    """
    if not user:
        return {}
    name = f"u{user.partition(':')[0]}"
    return {"HOME": "/tmp", "USER": name, "LOGNAME": name}


class Streams:
    """The output of a container, up to a bound.

    A program may print without end. The beginning of standard output is kept, with one byte more than
    `LARGEST` if there was more; the end of standard error is kept.
    """

    LARGEST = 32 << 20

    def __init__(self) -> None:
        self.held = {1: bytearray(), 2: bytearray()}

    def take(self, stream: int, data: bytes) -> None:
        """Add a piece of a stream (1 stdout, 2 stderr)."""
        buffer = self.held[stream]
        if stream == 1:
            buffer += data[: self.LARGEST + 1 - len(buffer)]
            return
        buffer += data
        if len(buffer) > 2 * self.LARGEST:
            del buffer[: -self.LARGEST]

    def read(self, stream: int) -> bytes:
        """Return the kept bytes of a stream."""
        buffer = self.held[stream]
        return bytes(buffer if stream == 1 else buffer[-self.LARGEST :])


# Takes a stream's number (1 standard output, 2 standard error) and bytes as they arrive.
Sink = Callable[[int, bytes], None]


class Engine(Protocol):
    """A module that runs containers."""

    NAME: str

    def version(self, env: Mapping[str, str]) -> str | None:
        """Return the version of the engine, or None if unavailable."""
        ...

    def load(
        self, layout: Path, reference: str, digests: ImageDigests, env: Mapping[str, str],
        progress: Progress = ignore_progress,
    ) -> bool:  # fmt: skip
        """Load an OCI layout into the engine under a reference.

        Return False if the engine had it already.

        Args:
            digests: of the layout; the one by which the engine knows images is compared, and never the other.
            progress: shows the bytes that are sent, if the engine gets them from here.
        """
        ...

    def run(self, reference: str, task: Task, env: Mapping[str, str]) -> Finished:
        """Run a container to its end and remove it."""
        ...

    def attach(self, reference: str, task: Task, env: Mapping[str, str], sink: Sink) -> int:
        """Run a container, and return its exit code.

        Its output goes to `sink` as it arrives; the container is removed.
        """
        ...
