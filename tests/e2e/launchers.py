"""The ways in which launchers start a command in an image, each with the real program.

Two of them are done by hand: enroot and pyxis are not in Debian. What they do is small enough: the unpacked image
becomes the root, the variables of the image's configuration (and none of the host) are set, and either the image's
`etc/rc` is started with the command (`enroot start`), or the command itself (pyxis, whose own rc takes its place).
https://github.com/NVIDIA/enroot/blob/main/doc/cmd/start.md, https://github.com/NVIDIA/pyxis/wiki/Usage
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reprobuild.engines import apptainer, docker, podman
from reprobuild.engines.apptainer_cache import Cache
from reprobuild.image.formats.enroot import enroot_files
from reprobuild.recipe.image_config import image_config
from tests.conftest import Built

Words = Sequence[bytes]
SEED = "7"


@dataclass(frozen=True)
class Way:
    """One way of starting: its name, the command line for some words, and the environment that leads there.

    `ask` ends the job as the launcher does when it is told to, None where the job is not the launcher's to end.
    `typed` is for a shell that reads the words as a line of its standard input.
    """

    name: str
    command: Callable[[Words], list[bytes]]
    env: Mapping[str, str]
    ask: str | None = None
    typed: bool = False

    def run(self, *words: str | bytes) -> subprocess.CompletedProcess[bytes]:
        """Start a command, and wait for its end."""
        given = [os.fsencode(word) for word in words]
        line = b" ".join(map(_quoted, given)) + b"\n" if self.typed else b""
        return subprocess.run(
            self.command([] if self.typed else given), env=dict(self.env), input=line, capture_output=True,
            timeout=120, check=False,
        )  # fmt: skip


@dataclass(frozen=True)
class Launchers:
    """All ways, in the order of the table, and the image's name in Docker."""

    ways: tuple[Way, ...]
    reference: str
    env: Mapping[str, str]

    def docker(self, *arguments: str | bytes) -> subprocess.CompletedProcess[bytes]:
        """Run Docker's own program."""
        argv = [b"docker", *map(os.fsencode, arguments)]
        return subprocess.run(argv, env=dict(self.env), capture_output=True, timeout=120, check=False)


def seeded(seed: str) -> list[bytes]:
    """Return the words by which Docker and podman hand on a seed."""
    return [b"--env", b"REPROBUILD_SEED=" + seed.encode()] if seed else []


@contextlib.contextmanager
def open_launchers(
    built: Built, podman_env: Mapping[str, str], apptainer_env: Mapping[str, str], folder: Path
) -> Iterator[Launchers]:
    """Load the image wherever it is to be started, and give all ways with a chosen seed."""
    name, layout = built.image.reference, built.out / "image"
    digests = built.image.digests
    # `podman run`, unlike `create`, wants the logins of a client of Docker whose directory has none.
    podman_env = {key: value for key, value in podman_env.items() if key != "DOCKER_CONFIG"}
    with contextlib.ExitStack() as stack:
        ways: list[Way] = []
        for module, env in ((docker, os.environ), (podman, podman_env)):
            module.load(layout, name, digests, env)
            ways += _with_containers(module.NAME, name, env, stack)
        apptainer.load(layout, name, digests, apptainer_env)
        ways += _with_apptainer(name, apptainer_env)
        ways += _by_hand(built, podman_env, folder, stack)
        yield Launchers(tuple(ways), name, os.environ)


def _with_containers(
    program: str, image: str, env: Mapping[str, str], stack: contextlib.ExitStack
) -> Iterator[Way]:
    start = [program.encode(), b"run", b"--rm", b"--network", b"none", *seeded(SEED)]
    running = f"reprobuild-{uuid.uuid4().hex}"
    waiting = [*start, b"--detach", b"--name", running.encode(), image.encode(), b"sleep", b"600"]
    begun = subprocess.run(waiting, env=dict(env), check=False, capture_output=True)
    assert begun.returncode == 0, begun.stderr
    end = [program, "rm", "--force", running]
    stack.callback(subprocess.run, end, env=dict(env), check=False, capture_output=True)

    def entrypoint(words: Words) -> list[bytes]:
        return [*start, image.encode(), *words]

    def replaced(words: Words) -> list[bytes]:
        return [*start, b"--entrypoint", words[0], image.encode(), *words[1:]]

    def execute(words: Words) -> list[bytes]:
        return [program.encode(), b"exec", running.encode(), *words]

    yield Way(f"`{program} run`", entrypoint, env, program)
    yield Way(f"`{program} run --entrypoint`", replaced, env, program)
    yield Way(f"`{program} exec`", execute, env)


def _with_apptainer(image: str, env: Mapping[str, str]) -> Iterator[Way]:
    cache = Cache.open_user_cache(env)
    kept = cache.find(image)
    assert kept
    sif = os.fsencode(cache.file(kept))

    def way(verb: str) -> Callable[[Words], list[bytes]]:
        def command(words: Words) -> list[bytes]:
            options = [b"--containall", b"--no-home", b"--env", b"REPROBUILD_SEED=" + SEED.encode()]
            return [b"apptainer", b"--silent", verb.encode(), *options, sif, *words]

        return command

    yield Way("`apptainer run`", way("run"), env, "process")
    yield Way("`apptainer exec`", way("exec"), env, "process")
    yield Way("`apptainer shell`", way("shell"), env, typed=True)


def _quoted(word: bytes) -> bytes:
    return b"'" + word.replace(b"'", b"'\\''") + b"'"


def _by_hand(
    built: Built, env: Mapping[str, str], folder: Path, stack: contextlib.ExitStack
) -> Iterator[Way]:
    """Give the two ways of enroot, on the root directory that podman has of the image, which nothing can change."""
    config = image_config(built.lock)
    done = subprocess.run(
        ["podman", "image", "mount", built.image.reference], env=dict(env), capture_output=True, text=True, check=True
    )  # fmt: skip
    end = ["podman", "image", "unmount", built.image.reference]
    stack.callback(subprocess.run, end, env=dict(env), check=False, capture_output=True)
    root = done.stdout.strip()
    (rc,) = (content for entry, content in enroot_files(config) if entry.path == "etc/rc")
    (folder / "rc").write_bytes(rc)
    script = f"for one in proc dev; do mount --rbind /$one {shlex.quote(root)}/$one; done; "
    script += f'mount --bind {shlex.quote(str(folder))} {shlex.quote(root)}/mnt; exec "$@"'
    given = ["env", "-i", *config.env, f"REPROBUILD_SEED={SEED}"]
    into = list(map(os.fsencode, ("unshare", "--mount", "sh", "-c", script, "sh", "chroot", root, *given)))

    def start(words: Words) -> list[bytes]:
        return [*into, b"/bin/sh", b"/mnt/rc", *words]

    def pyxis(words: Words) -> list[bytes]:
        return [*into, *words]

    yield Way("`enroot start`", start, os.environ, "process")
    yield Way("pyxis: `srun --container-image`", pyxis, os.environ, "process")
