"""How Docker is asked for GPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import docker
import docker.errors
from docker.types import DeviceRequest

from reprobuild.engines import gpu

T = TypeVar("T")


def with_gpus(client: docker.DockerClient, gpus: str, work: Callable[[Mapping[str, Any]], T]) -> T:
    """Do the work with the first way of asking for GPUs that the daemon knows; nothing ran where it refuses one."""
    *others, last = gpu_options(client, gpus)
    for options in others:
        try:
            return work(options)
        except docker.errors.APIError as err:
            if gpu.NO_DRIVER not in str(err.explanation):
                raise
    return work(last)


def gpu_options(client: docker.DockerClient, gpus: str) -> list[dict[str, Any]]:
    """Return the ways to ask for GPUs, the one of `docker run --gpus` first.

    A daemon that looks for specifications of CDI (from 25 on, where its settings or its version say so) names
    their folders. https://docs.docker.com/reference/cli/dockerd/#configure-cdi-devices
    """
    if not gpus:
        return [{}]
    if gpu.vendor(gpus) == gpu.AMD:
        visible = {gpu.AMD_VISIBLE: gpus} if gpu.ids(gpus) else {}
        devices = [f"{node}:{inside}:rwm" for node, inside in gpu.amd_devices().items()]
        return [{"devices": devices, "group_add": list(gpu.amd_groups()), "environment": visible}]
    names = list(gpu.ids(gpus))
    asked = DeviceRequest(
        capabilities=[["gpu"]], **({"device_ids": names} if names else {"count": -1})
    )  # fmt: skip
    by_cdi = DeviceRequest(driver="cdi", device_ids=list(gpu.cdi_names(gpus)))
    found = [] if gpu.by_cdi(gpus) else [asked]
    if not found or client.info().get("CDISpecDirs"):
        found.append(by_cdi)
    return [{"device_requests": [request]} for request in found]
