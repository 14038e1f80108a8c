"""Docker as a builder: BuildKit through the `docker` program.

The SDK has no BuildKit. The method depends on the daemon. With containerd's image store, or with a separate
builder that the user has chosen with `docker buildx use`, buildx writes an OCI layout. With the classic store
the image is made in the daemon, saved by its API and removed. Docker before 23 has BuildKit in the daemon and
in the program (DOCKER_BUILDKIT=1), later versions only in the buildx plugin.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from reprobuild.builders.model import ANSWER_SECONDS, BUILD_SECONDS, Say, build_error
from reprobuild.engines import docker as engine
from reprobuild.engines import docker_images as images
from reprobuild.errors import EngineError, ReproError
from reprobuild.image.oci.foreign import ForeignImage, read_foreign
from reprobuild.infra import proc
from reprobuild.infra.untrusted.regular_files import read_plain

NAME = "docker"
LAST_WITH_OWN_BUILDKIT = 22
NO_BUILDX = "install the plugin buildx (Debian: docker-buildx; https://docs.docker.com/go/buildx/)"


def version(env: Mapping[str, str]) -> str | None:
    """Return the daemon's version, or None if no daemon answers."""
    return engine.version(env)


@contextlib.contextmanager
def build(
    folder: Path, scratch: Path, *, platform: str, epoch: int, env: Mapping[str, str], say: Say
) -> Iterator[ForeignImage]:
    """Build the Dockerfile; see `model.Builder`.

    The build cache and the image are removed from the daemon.
    """
    buildx = _buildx_version(env)
    say(f"docker: daemon {version(env)}, {f'buildx {buildx}' if buildx else 'no buildx'}")
    driver = _buildx_driver(env) if buildx else ""
    archive = scratch / "image.tar"
    argv = ["--no-cache", "--network=none", f"--platform={platform}", "--progress=plain"]
    argv += ["--file", str(folder / "Dockerfile"), str(folder / "context")]
    with _remove_new_cache(env, say) if driver in ("", "docker") else _report_kept_cache(driver, say):
        if buildx and (driver != "docker" or images.keeps_layouts(env)):
            fields = "type=oci", f"dest={archive}", "compression=uncompressed", "force-compression=true"
            output = proc.comma_separated(fields)
            _run(["buildx", "build", "--provenance=false", "--sbom=false", "--output", output, *argv], env)
        else:
            head = (
                ["buildx", "build", "--provenance=false", "--load"] if buildx else _legacy_build_command(env)
            )
            _build_in_daemon([*head, *argv], scratch / "id", archive, env)
    yield read_foreign(archive)


def _buildx_version(env: Mapping[str, str]) -> str:
    """Return the plugin's version, or "" if the plugin is missing."""
    try:
        output = proc.run(
            ["docker", "buildx", "version"], env=env, purpose="ask for buildx", timeout=ANSWER_SECONDS
        ).decode()
    except proc.ProcessFailedError:
        return ""
    match = re.search(r"v?(\d+\.\d+\S*)", output)
    return match[1] if match else "of an unknown version"


def _buildx_driver(env: Mapping[str, str]) -> str:
    """Return the driver of the builder that buildx uses.

    It is `docker` for the daemon itself.
    """
    output = proc.run(
        ["docker", "buildx", "inspect"], env=env, purpose="ask for the builder", timeout=ANSWER_SECONDS
    ).decode()
    match = re.search(r"(?m)^Driver:\s*(\S+)", output)
    return match[1] if match else "unknown"


def _legacy_build_command(env: Mapping[str, str]) -> list[str]:
    """Return the command for a `docker` with BuildKit built in.

    Raises:
        EngineError: it needs the plugin, and has none.
    """
    output = proc.run(
        ["docker", "--version"], env=env, purpose="ask for Docker's version", timeout=ANSWER_SECONDS
    ).decode()
    match = re.search(r"version (\d+)\.", output)
    if match is None or int(match[1]) > LAST_WITH_OWN_BUILDKIT:
        raise EngineError(f"`docker` has no buildx, and so no BuildKit: {output.strip()}", hint=NO_BUILDX)
    return ["build"]


def _build_in_daemon(argv: Sequence[str], id_file: Path, archive: Path, env: Mapping[str, str]) -> None:
    """Build into the daemon, save the image, and remove it.

    An image that was there before stays.
    """
    before = images.image_ids(env)
    try:
        _run([*argv[:-1], "--iidfile", str(id_file), argv[-1]], env)
        images.save_image(read_plain(id_file, 4096).decode().strip(), archive, env)
    finally:
        image_id = read_plain(id_file, 4096).decode().strip() if id_file.exists() else ""
        if image_id and image_id not in before:
            with contextlib.suppress(EngineError):  # the earlier error is the one to report
                images.remove_image(image_id, env)


def _run(argv: Sequence[str], env: Mapping[str, str]) -> None:
    with_buildkit = {**env, "DOCKER_BUILDKIT": "1"}
    try:
        proc.run(["docker", *argv], env=with_buildkit, purpose="build the Dockerfile", timeout=BUILD_SECONDS)
    except proc.ProcessFailedError as err:
        raise build_error(NAME, err, _daemon_error(env)) from None


def _daemon_error(env: Mapping[str, str]) -> ReproError | None:
    if version(env) is not None:
        return None
    return EngineError(
        "the Docker daemon went away while it built", hint="start it again, and run the command again"
    )


@contextlib.contextmanager
def _remove_new_cache(env: Mapping[str, str], say: Say) -> Iterator[None]:
    """Remove the build's records from the daemon's cache.

    Older records stay.
    """
    before = images.cache_ids(env)
    try:
        yield
    finally:
        try:
            count = images.remove_cache(images.cache_ids(env) - before, env)
        except EngineError as err:
            say(f"docker: what the build left in the build cache stays there: {err}")
        else:
            if count:
                say(f"docker: {count} records stay in the build cache; `docker builder prune` removes them")


@contextlib.contextmanager
def _report_kept_cache(driver: str, say: Say) -> Iterator[None]:
    yield
    say(f"docker: the builder (driver {driver}) keeps its cache; `docker buildx prune` removes it")
