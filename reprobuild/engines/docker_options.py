"""A task's options of a container, for Docker's API."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import docker
from docker.types import Mount, Ulimit

from reprobuild.engines.limits import task_limits
from reprobuild.engines.model import Task, identity_variables


def container_options(
    client: docker.DockerClient, task: Task, visible: Mapping[str, str]
) -> dict[str, Any]:  # fmt: skip
    """Return the options of a container without GPUs and command.

    Args:
        client: of the daemon, which may be a user's own.
        task: the task to run.
        visible: variables that select the visible GPUs.
    """
    rootless = bool(task.user or task.generous) and _is_rootless(client)
    user = container_user(task.user, rootless=rootless)
    options: dict[str, Any] = {
        "stdin_open": task.stdin, "tty": task.terminal,
        "ports": {f"{port.inside}/tcp": (port.address, port.host) for port in task.ports},
        "environment": {**visible, **identity_variables(user), **task.environment},
        # The proxies of the user may have a password.
        "use_config_proxy": False,
        "network_mode": task.network, "shm_size": task.shared_memory, "log_config": {"Type": "none"},
        "mounts": [
            Mount(target=inside, source=host, type="bind", read_only=inside in task.read_only)
            for host, inside in task.volumes
        ],
        # A user's own daemon cannot raise limits above the user's.
        "ulimits": [
            Ulimit(name=limit.name, soft=limit.soft, hard=limit.hard)
            for limit in (task.limits if rootless else task_limits(task))
        ],
    }  # fmt: skip
    if user:
        options["user"] = user
    if user and task.user == "caller":
        options["group_add"] = [str(group) for group in os.getgroups()]
    return options | ({"working_dir": task.workdir} if task.workdir else {})


def container_user(user: str, *, rootless: bool) -> str:
    """Return the user in the container for `Task.user`.

    In a container of a rootless daemon, root is the user of that daemon.
    """
    if user != "caller":
        return user
    return "" if rootless or os.geteuid() == 0 else f"{os.geteuid()}:{os.getegid()}"


def _is_rootless(client: docker.DockerClient) -> bool:
    return any("name=rootless" in str(option) for option in client.info().get("SecurityOptions") or ())
