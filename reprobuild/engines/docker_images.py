"""Images and build cache of Docker, listed, saved and removed.

The builder uses these functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import docker
import docker.errors

from reprobuild.engines.docker import CHUNK, has_containerd_store, open_client

CONTAINERD = "/var/lib/containerd"


def keeps_layouts(env: Mapping[str, str]) -> bool:
    """Return whether the daemon can write OCI layouts itself.

    It can if it has containerd's image store.
    """
    with open_client(env) as client:
        return has_containerd_store(client.info())


def find_image_directories(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the possible image directories of the daemon, likeliest first.

    `DockerRootDir` of https://docs.docker.com/reference/api/engine/ (`GET /info`). With containerd's image
    store the images are below it if dockerd runs that containerd itself, else in the directory of the
    system's containerd. dockerd does not report that directory, so its default is used here.
    """
    with open_client(env) as client:
        info = client.info()
    root = str(info.get("DockerRootDir") or "")
    if not has_containerd_store(info):
        return (root,)
    return f"{root}/containerd/daemon", CONTAINERD, root


def image_ids(env: Mapping[str, str]) -> set[str]:
    """Return the ids of all images, including unnamed ones."""
    with open_client(env) as client:
        return set(cast(Any, client.api).images(quiet=True, all=True))


def save_image(image: str, path: Path, env: Mapping[str, str]) -> None:
    """Write an image as an archive of `docker save`.

    Raises:
        EngineError: the daemon refuses or goes away.
    """
    with open_client(env) as client, path.open("wb") as stream:
        for chunk in cast(Any, client.api).get_image(image, chunk_size=CHUNK):
            stream.write(chunk)


def remove_image(image: str, env: Mapping[str, str]) -> None:
    """Remove an image by its id."""
    with open_client(env) as client:
        client.images.remove(image)


def cache_ids(env: Mapping[str, str]) -> set[str]:
    """Return the ids of the daemon's build cache records.

    Docker before 23 does not know the type parameter, and then also counts volumes.
    """
    with open_client(env) as client:
        return {record["ID"] for record in _read_disk_usage(client).get("BuildCache") or ()}


def _read_disk_usage(client: docker.DockerClient) -> dict[str, Any]:
    api = cast(Any, client.api)
    answer = api.get(f"{api.base_url}/v{api.api_version}/system/df", params={"type": "build-cache"})
    answer.raise_for_status()
    return cast("dict[str, Any]", answer.json())


def remove_cache(ids: Iterable[str], env: Mapping[str, str]) -> int:
    """Remove build cache records, and return the number that remain.

    A record stays as long as others need it.
    """
    records = set(ids)
    with open_client(env) as client:
        while records:
            for record in records:
                cast(Any, client.api).prune_builds(filters={"id": record}, all=True)
            rest = records & {record["ID"] for record in _read_disk_usage(client).get("BuildCache") or ()}
            if rest == records:
                return len(records)
            records = rest
    return 0
