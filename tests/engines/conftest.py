"""Engines with each kind of image store, and an image of a few programs of this machine."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import re
import select
import shutil
import subprocess
import sys
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from reprobuild.engines import builtin, docker, podman
from reprobuild.engines.model import Engine
from reprobuild.image.layers.blobs import Layer, LayerWriter
from reprobuild.image.model import ImageDigests
from reprobuild.image.oci.write import image_json, write_layout
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.infra.tar.writing import TarWriter
from reprobuild.recipe.runtime_config import RuntimeConfig
from reprobuild.store.store import Store
from tests.conftest import ROOT
from tests.engines.builtin_client import answer

PRIVATE_ENGINE = ROOT / "dev" / "private_engine.py"
START_SECONDS = 400  # the first time, packages are downloaded
PROGRAMS = ("sh", "env", "cat", "head", "sleep", "stty")
ENTRYPOINT = ["/bin/env", "ENTRYPOINT=passed"]
CREATED = "2024-01-02T03:04:05Z"


@pytest.fixture
def sockets_that_the_sdk_forgets() -> Iterator[None]:
    """Docker's SDK does not close a socket that could not connect, which is an error in a later test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()


def packages_in_use() -> Path | None:
    """Return the directory of the private engine whose client is on PATH."""
    client = shutil.which("docker")
    folder = Path(client).parent.parent if client else Path()
    return folder if client and (folder / "stamp.json").is_file() else None


@dataclass(frozen=True)
class Daemon:
    """A daemon of our own: how to reach it, and the program that looks after it."""

    env: Mapping[str, str]
    process: subprocess.Popen[str]


@contextlib.contextmanager
def daemon(name: str, *options: str, share: bool = False, path: Path | None = None) -> Iterator[Daemon]:
    """Run a daemon with the classic image store beside the engine in use, whatever that is.

    Args:
        name: of its directory.
        options: of `private_engine.py run`.
        share: take the packages that the engine in use was unpacked from.
        path: a directory to put last on the daemon's PATH.
    """
    packages = packages_in_use()
    if share and packages:
        options = (*options, "--packages", str(packages))
    argv = [
        *(sys.executable, str(PRIVATE_ENGINE), "run", "--classic", *options, "--folder"),
        *(str((packages or ROOT / "build" / "engines") / name), "--", "sh", "-c", 'echo "$DOCKER_HOST"; exec cat'),
    ]  # fmt: skip
    env = {**os.environ, "PATH": f"{os.environ['PATH']}:{path}"} if path else None
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        try:
            ready, _, _ = select.select([process.stdout], [], [], START_SECONDS)
            host = process.stdout.readline().strip() if ready else ""
            if not host:
                process.terminate()
                pytest.fail(f"no engine with the classic image store:\n{process.stderr.read()}")
            others = {"DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "DOCKER_CONTEXT", "DOCKER_API_VERSION"}
            kept = {name: value for name, value in os.environ.items() if name not in others}
            yield Daemon(env={**kept, "DOCKER_HOST": host}, process=process)
        finally:
            process.stdin.close()
            process.wait(60)


@dataclass(frozen=True)
class Running:
    """An engine that answers: its module, its program on PATH, and the environment that leads to it."""

    module: Engine
    env: Mapping[str, str]

    def client(self, *arguments: str) -> str:
        """Run the engine's own program as a person does."""
        if self.module.NAME == "builtin":
            return answer(self.env, *arguments)
        argv = [self.module.NAME, *arguments]
        done = subprocess.run(argv, env=dict(self.env), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def containers(self, reference: str) -> str:
        """Return the ids of all containers of an image; podman's filter takes only the whole name."""
        name = f"localhost/{reference}" if self.module.NAME == "podman" else reference
        return self.client("ps", "--all", "--quiet", "--filter", f"ancestor={name}")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(None, id="in-use"), pytest.param(("classic",), id="classic"),
        pytest.param(("own", "--suite", "own"), id="own-suite", marks=pytest.mark.long),
        *(pytest.param(name, id=name) for name in ("podman", "builtin", "copying")),
    ],
)  # fmt: skip
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The engine in use, Docker's classic store, the system's own Docker, podman, and ours, which may copy."""
    if request.param in ("builtin", "copying"):
        with pytest.MonkeyPatch.context() as patch:
            if request.param == "copying":
                patch.setattr(builtin, "can_mount_overlay", lambda: False)
            yield Running(builtin, {**os.environ, "XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache"))})
    elif request.param is None:
        yield Running(docker, os.environ)
    elif request.param == "podman":
        yield Running(podman, request.getfixturevalue("podman_env"))
    else:
        name, *options = request.param
        with daemon(name, *options, share=not options) as running:
            yield Running(docker, running.env)


@dataclass(frozen=True)
class Tiny:
    """A layout in a directory, and how an engine may know it."""

    layout: Path
    reference: str
    digests: ImageDigests


def programs() -> dict[str, Path]:
    """Return {path in the image: file of this machine}: some programs and the libraries that they need."""
    found = {f"bin/{name}": Path(shutil.which(name) or name) for name in PROGRAMS}
    listed = subprocess.run(
        ["ldd", *map(str, found.values())], capture_output=True, text=True, check=True
    ).stdout
    for path in re.findall(r"(?:=> )?(/\S+) \(0x", listed):
        found[path[1:]] = Path(path)
    return found


def make_tiny(
    folder: Path, reference: str, files: Mapping[str, bytes] | None = None, variables: Sequence[str] = ()
) -> Tiny:
    """Write a layout with two layers: programs, and other files."""
    store = Store(folder / "store")
    tops = [{path: source.read_bytes() for path, source in programs().items()}, dict(files or {})]
    layers = [make_layer(store, f"layer {index}", content) for index, content in enumerate(tops)]
    config = RuntimeConfig(
        env=("PATH=/bin", "IN_IMAGE=yes", *variables), entrypoint=tuple(ENTRYPOINT), cmd=("/bin/sh",)
    )
    written = write_layout(
        folder / "image", store, layers, image_json(layers, config, "linux/amd64", CREATED),
        "linux/amd64", reference,
    )  # fmt: skip
    return Tiny(
        layout=folder / "image", reference=reference, digests=ImageDigests(written.config, written.manifest)
    )


def make_layer(store: Store, title: str, files: Mapping[str, bytes]) -> Layer:
    target = io.BytesIO()
    with LayerWriter(target) as sink:
        writer = TarWriter(sink, 0)
        for name in sorted({str(parent) for path in files for parent in Path(path).parents} - {"."}):
            writer.directory(name)
        for path, content in files.items():
            writer.add(TarEntry(path=path, type="file", mode=0o755, size=len(content)), content)
        writer.close()
        diff_id, blob, size = sink.finish()
    store.add(target.getvalue())
    return Layer(title=title, diff_id=diff_id, blob=blob, size=size, listing="")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    name = f"reprobuild-test/{uuid.uuid4().hex}:1"
    return make_tiny(tmp_path_factory.mktemp("tiny"), name, {"etc/hello": b"hello\n"})
