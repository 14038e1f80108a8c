"""Podman (buildah) as a builder of the Dockerfile.

One layer, no intermediate images: `--layers=false`. The layout is written uncompressed, because the layers are
packed again when they are adopted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from reprobuild.builders.model import BUILD_SECONDS, Say, build_error
from reprobuild.engines import podman as engine
from reprobuild.errors import EngineError, ReproError
from reprobuild.image.oci.foreign import ForeignImage, read_foreign
from reprobuild.infra import proc
from reprobuild.infra.untrusted.regular_files import read_plain

NAME = "podman"


def version(env: Mapping[str, str]) -> str | None:
    """Return podman's version, or None if it is unusable."""
    return engine.version(env)


@contextlib.contextmanager
def build(
    folder: Path, scratch: Path, *, platform: str, epoch: int, env: Mapping[str, str], say: Say
) -> Iterator[ForeignImage]:
    """Build the Dockerfile; see `model.Builder`.

    The image is removed from podman's storage.
    """
    say(f"podman: {version(env)}")
    layout = scratch / "layout"
    before = set(
        engine.run_podman(env, "images", "--all", "--quiet", "--no-trunc", purpose="list images").split()
    )
    image_id = ""
    try:
        image_id = _build_dockerfile(folder, scratch / "id", platform, epoch, env)
        argv = ["save", "--quiet", "--format", "oci-dir", "--uncompressed", "--output", str(layout), image_id]
        engine.run_podman(env, *argv, purpose="write the image", timeout=BUILD_SECONDS)
    finally:
        if image_id and image_id not in before:
            with contextlib.suppress(EngineError):  # the earlier error is the one to report
                engine.run_podman(env, "rmi", image_id, purpose="remove the image")
    yield read_foreign(layout)


def _build_dockerfile(folder: Path, id_file: Path, platform: str, epoch: int, env: Mapping[str, str]) -> str:
    """Return the id of the image."""
    argv: list[str | Path] = [
        "podman", "build", "--no-cache", "--layers=false", "--force-rm", "--network=none", "--platform", platform,
        "--timestamp", str(epoch), "--format", "oci", "--iidfile", id_file,
        "--file", proc.comma_separated((str(folder / "Dockerfile"),)), folder / "context",
    ]  # fmt: skip
    # Newer versions take this variable for an option that excludes --timestamp.
    env = {name: value for name, value in env.items() if name != "SOURCE_DATE_EPOCH"}
    try:
        proc.run([str(word) for word in argv], env=env, purpose="build the Dockerfile", timeout=BUILD_SECONDS)
    except proc.ProcessFailedError as err:
        raise build_error(NAME, err, _find_podman_error(err)) from None
    return read_plain(id_file, 4096).decode().strip()


def _find_podman_error(err: proc.ProcessFailedError) -> ReproError | None:
    """Return podman's own error, or None if the recipe failed."""
    refused = engine.podman_error(err.code, err.stderr, str(err))
    return None if refused.hint == engine.UNWELL else refused
