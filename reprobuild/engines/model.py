"""What every engine offers: a module with these functions, listed in the registry of this package."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct


class Finished(Struct, frozen=True, kw_only=True):
    """How a container ended: exit code, both streams, and the files below its output folder by name.

    Those that were put into a folder of the host (`Task.kept`) are not among them. The streams are cut as `Streams`
    says.
    """

    code: int
    stdout: bytes
    stderr: bytes
    outputs: dict[str, bytes] = {}


class Limit(Struct, frozen=True, kw_only=True):
    """A limit of a resource by its name in limits.conf(5); -1 is none."""

    name: str
    soft: int
    hard: int


class Task(Struct, frozen=True, kw_only=True):
    """What to run in a container, without network unless one is named.

    `arguments` follow the image's entrypoint, or replace it where `bypass` is true. `outputs` names a
    folder inside the container that is made before the start and read afterwards; empty for none. Its regular
    files go into memory, or into the folder `kept` of the host, which is empty before.
    `volumes` are (folder of the host, folder in the container). `timeout` is in seconds; 0 for none.
    `workdir` is the folder it starts in, empty for the image's; Apptainer goes there only with `bypass`.
    `gpus` is empty for none, "all", or ids separated by commas: indices, UUIDs, MIG ids, names of CDI.
    `read_only` are those of its volumes, by their folder in the container, that are not written to. `user` is empty
    for the image's, "caller" for who calls this program (so that files in volumes are his), else "UID:GID".
    `shared_memory` is the size of /dev/shm in bytes. `generous` raises limits as far as training needs, `limits` are
    those that were asked for. The values of the variables in `hidden` must stand on no command line.
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


def identity(user: str) -> dict[str, str]:
    """Return variables for a user that the image may not know, so that programs find a name, and a home to write to.

    Args:
        user: "UID:GID", empty for the image's.
    """
    if not user:
        return {}
    name = f"u{user.partition(':')[0]}"
    return {"HOME": "/tmp", "USER": name, "LOGNAME": name}


class Streams:
    """The output of a container, kept up to a bound: a program may print without end.

    Of standard output the beginning is kept, and one byte more than `LARGEST` where there was more; of standard error
    the end.
    """

    LARGEST = 32 << 20

    def __init__(self) -> None:
        self.held = {1: bytearray(), 2: bytearray()}

    def take(self, stream: int, data: bytes) -> None:
        """Take a piece of a stream (1 standard output, 2 standard error)."""
        kept = self.held[stream]
        if stream == 1:
            kept += data[: self.LARGEST + 1 - len(kept)]
            return
        kept += data
        if len(kept) > 2 * self.LARGEST:
            del kept[: -self.LARGEST]

    def of(self, stream: int) -> bytes:
        """Return what is kept of a stream."""
        kept = self.held[stream]
        return bytes(kept if stream == 1 else kept[-self.LARGEST :])


# Takes a stream's number (1 standard output, 2 standard error) and bytes as they come.
Sink = Callable[[int, bytes], None]


class Engine(Protocol):
    """A module that runs containers."""

    NAME: str

    def version(self, env: Mapping[str, str]) -> str | None:
        """Return the version of the engine that answers, or None when none does."""
        ...

    def load(self, layout: Path, reference: str, digests: Sequence[str], env: Mapping[str, str]) -> bool:
        """Put an OCI layout into the engine under a reference; return False when it was there already.

        Args:
            digests: the config and manifest digests (`sha256:...`), by either of which an engine may know it.
        """
        ...

    def run(self, reference: str, task: Task, env: Mapping[str, str]) -> Finished:
        """Run a container to its end and remove it."""
        ...

    def attach(self, reference: str, task: Task, env: Mapping[str, str], sink: Sink) -> int:
        """Run a container, hand on its output as it comes, remove it, and return its exit code."""
        ...
