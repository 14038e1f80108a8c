"""Builders: each makes the native tree of the recipe, leaves nothing behind, and says what went wrong."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest

from reprobuild.builders.registry import build_foreign
from reprobuild.builders.tree_check import make_tree_check
from reprobuild.engines import docker, docker_images, podman
from reprobuild.errors import BuildError, EngineError
from reprobuild.image.model import Image
from reprobuild.image.oci.read import layout_tree, read_layout
from reprobuild.lock.file import read_lock
from reprobuild.output.directory import LOCK, read_image
from reprobuild.recipe.payload import payload_files
from reprobuild.store.store import Store
from tests.conftest import Built, reprobuild
from tests.engines.conftest import Running, daemon
from tests.engines.small import WHEELS, Small

FAILED = "the lines above are the builder's own; `reprobuild build` makes a file of context/ that was changed again"


def test_the_small_lock_has_what_maintainer_scripts_make(small: Small) -> None:
    tree = layout_tree(read_layout(small.out / "image"))
    for path in (
        "etc/ssl/certs/ca-certificates.crt",
        "etc/alternatives/awk",
        "etc/alternatives/pager",
        "etc/ld.so.cache",
    ):
        assert path in tree
    lock = read_lock(small.out / LOCK)
    assert {"openssh-server", "dbus", "fontconfig"} <= {deb.name for deb in lock.base.packages}
    assert {wheel.name for wheel in lock.wheels} == WHEELS


@pytest.mark.parametrize(
    "engine",
    [
        pytest.param(None, id="in-use"),
        pytest.param(("classic",), id="classic", marks=pytest.mark.long),
        pytest.param(("own", "--suite", "own"), id="own-suite", marks=pytest.mark.long),
        pytest.param("podman", id="podman", marks=pytest.mark.long),
    ],
    indirect=True,
    scope="module",
)
def test_each_builder_makes_the_native_tree(engine: Running, small: Small, tmp_path: Path) -> None:
    out = tmp_path / 'results, "quoted" and ümläuted'
    before = kept(engine, small)
    name = engine.module.NAME
    done = reprobuild(
        "build", small.out / LOCK, "-o", out, "--store", small.store, "--builder", name, "--json",
        env=engine.env,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)["image"]
    assert (said["tree"], said["builder"]) == (small.image.tree, name)
    assert "is not compared" not in done.stderr
    lock, image = read_image(out)
    native, made = read_layout(small.out / "image"), read_layout(out / "image")
    assert (image.builder, lock) == (name, read_lock(small.out / LOCK))
    assert made.config["config"]["Labels"] == native.config["config"]["Labels"]
    assert made.config["created"] == native.config["created"]
    assert kept(engine, small) == before
    assert not [path.name for path in out.iterdir() if path.name.startswith(".")]
    assert engine.module.load(out / "image", image.reference, image.digests, engine.env)
    engine.client("rmi", image.reference)


def kept(engine: Running, small: Small) -> list[str]:
    """Return what stays in an engine from a build, sorted: unnamed images, containers, the build cache.

    Named images and containers of another kind are of other tests, which run at the same time.
    They are sorted, because the engines list images of one age in any order.
    """
    if engine.module.NAME == "podman":
        images = json.loads(engine.client("images", "--all", "--format", "json"))
        containers = engine.client("ps", "--all", "--external", "--format", "{{.Names}}").splitlines()
        # Searches of other tests leave finished images without a name, which have the labels of other locks.
        own = {None, f"sha256:{small.image.lock}"}
        unnamed = [
            image["Id"] for image in images
            if not image.get("Names") and (image.get("Labels") or {}).get("org.reprobuild.lock") in own
        ]  # fmt: skip
        unfinished = [name for name in containers if "working-container" in name]  # as Buildah names them
        return sorted(unnamed + unfinished)
    unnamed = engine.client("images", "--all", "--quiet", "--no-trunc", "--filter", "dangling=true")
    return sorted([*unnamed.split(), *docker_images.cache_ids(engine.env)])


@pytest.mark.long
@pytest.mark.parametrize(
    "engine",
    [("own", "--suite", "own"), "podman"],
    ids=["own-suite", "podman"],
    indirect=True,
    scope="module",
)
def test_the_example_too(engine: Running, built_example: Built, tmp_path: Path) -> None:
    """Docker's newer builder is shown by tests/recipe, with the command of the Dockerfile itself."""
    done = reprobuild(
        "build", built_example.out / LOCK, "-o", tmp_path, "--store", built_example.store,
        "--builder", engine.module.NAME, "--json", env=engine.env,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["image"]["tree"] == built_example.image.tree


def foreign(small: Small, out: Path, engine: Running, say: Callable[[str], None] = lambda _: None) -> Image:
    """Build what stands in an output directory."""
    lock = read_lock(small.out / LOCK)
    return build_foreign(
        engine.module.NAME, out, platform=lock.platform, epoch=lock.epoch, reference="small:1", env=engine.env,
        say=say,
    )  # fmt: skip


def copied(small: Small, folder: Path) -> Path:
    """Copy the recipe and its context, whose files are links into the store."""
    shutil.copytree(small.out, folder, ignore=shutil.ignore_patterns("image"), copy_function=os.link)
    shutil.copytree(small.out / "image", folder / "image", copy_function=os.link)
    return folder


@pytest.mark.parametrize("engine", [None, "podman"], ids=["in-use", "podman"], indirect=True, scope="module")
def test_a_damaged_context_is_refused_by_the_recipe(engine: Running, small: Small, tmp_path: Path) -> None:
    out = copied(small, tmp_path / "out")
    wheel = next((out / "context" / "wheels").glob("einops-*"))
    content = bytearray(wheel.read_bytes())
    content[1000] ^= 1
    wheel.unlink()
    wheel.write_bytes(content)
    before = kept(engine, small)
    with pytest.raises(
        BuildError, match=f"{wheel.name} is not the file of the lock: its sha256 is "
    ) as failed:
        foreign(small, out, engine)
    assert failed.value.hint == FAILED
    assert kept(engine, small) == before
    assert read_layout(out / "image").manifest == small.image.manifest


@pytest.mark.usefixtures("sockets_that_the_sdk_forgets")
def test_a_docker_that_is_killed_while_it_builds(small: Small, tmp_path: Path) -> None:
    out = copied(small, tmp_path / "out")
    said: list[str] = []
    with daemon("killed", share=True) as running:

        def say(text: str) -> None:
            said.append(text)
            if len(said) == 1:
                threading.Timer(1, running.process.kill).start()  # and all that it looks after

        with pytest.raises(EngineError, match="the Docker daemon went away") as failed:
            foreign(small, out, Running(docker, running.env), say)
    assert failed.value.hint == "start it again, and run the command again"
    assert said[1].startswith("docker: what the build left in the build cache stays there: ")
    as_it_was(out, small)


def as_it_was(out: Path, small: Small) -> None:
    assert read_layout(out / "image").manifest == small.image.manifest
    assert not [path.name for path in out.iterdir() if path.name.startswith(".")]


def kill_podman_build(deadline: float) -> None:
    """Kill the `podman build` that this process has started, a moment after its start."""
    while time.monotonic() < deadline:
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_bytes().split(b"\0")
                parent = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[1]
                if int(parent) == os.getpid() and b"build" in words and words[0].endswith(b"podman"):
                    time.sleep(1)
                    os.kill(int(folder.name), signal.SIGKILL)
                    return
        time.sleep(0.05)


def test_a_podman_that_is_killed_while_it_builds(
    podman_env: Mapping[str, str], small: Small, tmp_path: Path
) -> None:
    out, engine = copied(small, tmp_path / "out"), Running(podman, podman_env)
    killer = threading.Thread(target=kill_podman_build, args=(time.monotonic() + 60,))
    with pytest.raises(EngineError, match="podman was ended by signal 9") as failed:
        foreign(small, out, engine, lambda _: killer.start())
    killer.join()
    assert (
        failed.value.hint
        == "start the command again; `podman ps --all --external` lists what an interrupted one left"
    )
    as_it_was(out, small)
    left = engine.client("ps", "--all", "--external", "--quiet").split()
    engine.client("rm", "--force", *left)
    assert engine.client("ps", "--all", "--external", "--quiet") == ""


def test_a_newer_docker_without_the_plugin(small: Small, tmp_path: Path) -> None:
    """Docker 23 and newer have BuildKit in buildx alone; here a program that has lost it."""
    real, program = shutil.which("docker"), tmp_path / "docker"
    lost = "echo \"docker: 'buildx' is not a docker command.\" >&2; exit 1"
    program.write_text(f'#!/bin/sh\n[ "$1" != buildx ] || {{ {lost}; }}\nexec {real} "$@"\n')
    program.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    out = copied(small, tmp_path / "out")
    with pytest.raises(
        EngineError, match="`docker` has no buildx, and so no BuildKit: Docker version "
    ) as failed:
        foreign(small, out, Running(docker, env))
    assert failed.value.hint == (
        "install the plugin buildx (Debian: docker-buildx; https://docs.docker.com/go/buildx/)"
    )
    as_it_was(out, small)


def test_another_tree_than_the_native_one_is_refused(small: Small) -> None:
    lock, store, said = read_lock(small.out / LOCK), Store(small.store), list[str]()
    check = make_tree_check(lock, store, payload_files(lock, store), "docker", said.append)
    assert check
    layout = read_layout(small.out / "image")
    tree, config = layout_tree(layout), layout.runtime
    check(tree, config)
    other = {path: entry for path, entry in tree.items() if not path.startswith("etc/ssh/")}
    other["etc/fonts"] = msgspec.structs.replace(tree["etc/fonts"], mode=0o700)
    with pytest.raises(BuildError) as failed:
        check(other, config)
    assert "docker made another tree than the native builder; they differ in /etc/fonts, /etc/ssh/" in str(
        failed.value
    )
    assert failed.value.hint == (
        "`--builder native` gives the promised tree; please report the paths with the version of docker"
    )
    with pytest.raises(BuildError, match=r"they differ in the configuration$"):
        check(tree, msgspec.structs.replace(config, user="7"))
    assert said == []


def test_a_tree_that_nobody_knows_is_not_compared(small: Small, tmp_path: Path) -> None:
    lock, said = read_lock(small.out / LOCK), list[str]()
    shutil.copytree(small.store / "blobs", tmp_path / "blobs", copy_function=os.link)
    files = payload_files(lock, Store(small.store))
    assert make_tree_check(lock, Store(tmp_path), files, "docker", said.append) is None
    assert said == ["the tree is not compared: the store has no layers of the native builder for this lock"]
