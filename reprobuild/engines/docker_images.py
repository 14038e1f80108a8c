"""What a builder asks of Docker's API: which images and what cache there are, an image out, both removed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import docker
import docker.errors

from reprobuild.engines.docker import CHUNK, connected, has_containerd_store

CONTAINERD = "/var/lib/containerd"


def keeps_layouts(env: Mapping[str, str]) -> bool:
    """Tell whether the daemon has containerd's image store, and so can write OCI layouts itself."""
    with connected(env) as client:
        return has_containerd_store(client.info())


def folders(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return where the daemon may keep images on its machine, the likeliest folder first.

    `DockerRootDir` of https://docs.docker.com/reference/api/engine/ (`GET /info`). With containerd's image store they
    are below it where dockerd runs that containerd itself, else in the folder of the system's containerd, whose
    default is here: dockerd does not tell it.
    """
    with connected(env) as client:
        info = client.info()
    own = str(info.get("DockerRootDir") or "")
    if not has_containerd_store(info):
        return (own,)
    return f"{own}/containerd/daemon", CONTAINERD, own


def image_ids(env: Mapping[str, str]) -> set[str]:
    """Return the ids of all images, also of those without a name."""
    with connected(env) as client:
        return set(cast(Any, client.api).images(quiet=True, all=True))


def save_image(image: str, path: Path, env: Mapping[str, str]) -> None:
    """Write an image as an archive of `docker save`.

    Raises:
        EngineError: the daemon refuses or goes away.
    """
    with connected(env) as client, path.open("wb") as stream:
        for chunk in cast(Any, client.api).get_image(image, chunk_size=CHUNK):
            stream.write(chunk)


def remove_image(image: str, env: Mapping[str, str]) -> None:
    """Remove an image by its id."""
    with connected(env) as client:
        client.images.remove(image)


def cache_ids(env: Mapping[str, str]) -> set[str]:
    """Return the ids of the records of the daemon's build cache.

    The type of what is counted is not known to Docker before 23, which then also counts volumes.
    """
    with connected(env) as client:
        return {record["ID"] for record in _disk_use(client).get("BuildCache") or ()}


def _disk_use(client: docker.DockerClient) -> dict[str, Any]:
    api = cast(Any, client.api)
    answer = api.get(f"{api.base_url}/v{api.api_version}/system/df", params={"type": "build-cache"})
    answer.raise_for_status()
    return cast("dict[str, Any]", answer.json())


def remove_cache(ids: Iterable[str], env: Mapping[str, str]) -> int:
    """Remove records of the build cache, and return how many remain: a record is kept while others need it."""
    left = set(ids)
    with connected(env) as client:
        while left:
            for record in left:
                cast(Any, client.api).prune_builds(filters={"id": record}, all=True)
            there = left & {record["ID"] for record in _disk_use(client).get("BuildCache") or ()}
            if there == left:
                return len(left)
            left = there
    return 0
