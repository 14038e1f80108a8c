"""Requests for GPUs in Docker's API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import docker
import docker.errors
from docker.types import DeviceRequest

from reprobuild.engines import gpu

T = TypeVar("T")


def run_with_gpus(client: docker.DockerClient, gpus: str, work: Callable[[Mapping[str, Any]], T]) -> T:
    """Run the work with the first accepted GPU request.

    The daemon must know the kind of request. If it refuses a request, the work has not run yet.
    """
    *others, last = gpu_options(client, gpus)
    for options in others:
        try:
            return work(options)
        except docker.errors.APIError as err:
            if gpu.NO_DRIVER not in str(err.explanation):
                raise
    return work(last)


def gpu_options(client: docker.DockerClient, gpus: str) -> list[dict[str, Any]]:
    """Return the possible GPU requests, in order of preference.

    That of `docker run --gpus` is first. A daemon that uses specifications of CDI (from 25 on, if its
    settings or its version enable it) lists their directories.

    https://docs.docker.com/reference/cli/dockerd/#configure-cdi-devices
    """
    if not gpus:
        return [{}]
    if gpu.vendor(gpus) == gpu.AMD:
        visible = {gpu.AMD_VISIBLE: gpus} if gpu.gpu_ids(gpus) else {}
        devices = [f"{node}:{inside}:rwm" for node, inside in gpu.amd_devices().items()]
        return [{"devices": devices, "group_add": list(gpu.amd_groups()), "environment": visible}]
    names = list(gpu.gpu_ids(gpus))
    by_capability = DeviceRequest(
        capabilities=[["gpu"]], **({"device_ids": names} if names else {"count": -1})
    )  # fmt: skip
    by_cdi = DeviceRequest(driver="cdi", device_ids=list(gpu.cdi_names(gpus)))
    requests = [] if gpu.uses_cdi(gpus) else [by_capability]
    if not requests or client.info().get("CDISpecDirs"):
        requests.append(by_cdi)
    return [{"device_requests": [request]} for request in requests]
