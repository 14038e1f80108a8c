"""An engine takes an image by its own kind of digest: the manifest of one is never the configuration of another."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reprobuild.engines import builtin, docker, podman
from reprobuild.errors import EngineError
from reprobuild.image.model import ImageDigests
from reprobuild.image.oci.read import Layout
from tests.image.layouts import write_image
from tests.image.made import file

NAME = "reprobuild:0123456789ab"
OTHER = f"sha256:{'0' * 64}"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return write_image(tmp_path / "image", [[file("etc/a", b"a")]])


@pytest.mark.parametrize("wrong", ["config", "manifest", "both", "crosswise"])
def test_the_built_in_engine_compares_both(layout: Layout, wrong: str, tmp_path: Path) -> None:
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    config, manifest = layout.config_digest, layout.manifest
    digests = {
        "config": ImageDigests(config=OTHER, manifest=manifest),
        "manifest": ImageDigests(config=config, manifest=OTHER),
        "both": ImageDigests(config=OTHER, manifest=OTHER),
        "crosswise": ImageDigests(config=manifest, manifest=config),
    }[wrong]
    with pytest.raises(EngineError, match=f"image holds {manifest} with {config}, not sha256:") as failed:
        builtin.load(layout.folder, NAME, digests, env)
    assert failed.value.hint == "it was built again meanwhile: run the command again"
    assert builtin.load(layout.folder, NAME, layout.digests, env)


class Daemon:
    """A daemon that has one image, whatever is loaded."""

    def __init__(self, image_id: str, store: str) -> None:
        self.images = SimpleNamespace(get=lambda reference: SimpleNamespace(id=image_id))
        self.api = SimpleNamespace(load_image=lambda content: [{} for _ in content][:0])
        self.store = store

    def info(self) -> Mapping[str, Any]:
        return {"DriverStatus": [["driver-type", self.store]]}


@pytest.mark.parametrize(
    ("store", "kind"), [("overlay2", "config"), ("io.containerd.snapshotter.v1", "manifest")]
)
def test_docker_knows_an_image_by_the_digest_of_its_store(
    store: str, kind: str, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = layout.digests

    def load(image_id: str) -> bool:
        @contextlib.contextmanager
        def open_client(env: Mapping[str, str]) -> Iterator[Daemon]:
            yield Daemon(image_id, store)

        monkeypatch.setattr(docker, "open_client", open_client)
        return docker.load(layout.folder, NAME, digests, os.environ)

    own, other = getattr(digests, kind), next(value for value in digests if value != getattr(digests, kind))
    assert load(own) is False
    with pytest.raises(EngineError, match=f"Docker loaded {NAME} as {other}, not as {own}"):
        load(other)


def test_podman_knows_an_image_by_its_configuration(layout: Layout, tmp_path: Path) -> None:
    digests = layout.digests

    def load(image_id: str) -> bool:
        program = tmp_path / "bin" / "podman"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\necho {image_id.removeprefix('sha256:')}\n")
        program.chmod(0o755)
        return podman.load(
            layout.folder, NAME, digests, {**os.environ, "PATH": f"{program.parent}:/usr/bin:/bin"}
        )

    assert load(digests.config) is False
    with pytest.raises(
        EngineError, match=f"podman loaded {NAME} as {digests.manifest}, not as {digests.config}"
    ):
        load(digests.manifest)
