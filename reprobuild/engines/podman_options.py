"""A task's options of a container, for `podman create`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from reprobuild.engines import gpu
from reprobuild.engines.limits import hard_limit, limits_of_caller, may_raise, task_limits
from reprobuild.engines.model import DEFAULT_NETWORK, Limit, Task, identity_variables
from reprobuild.engines.program_variables import OF_EACH_PROGRAM
from reprobuild.errors import EngineError

# Variables that would change podman itself are given on its command line, all others by its environment,
# because other users of the machine cannot read that.
OF_PODMAN = re.compile(
    rf"{OF_EACH_PROGRAM}|GO[A-Z]+|_?CONTAINERS?_.*|STORAGE_.*|BUILDAH_.*|REGISTRY_.*|REGISTRIES_.*|PODMAN_.*|DOCKER_.*"
    r"|SSL_.*|LISTEN_.*|NOTIFY_SOCKET|DBUS_.*|[Hh][Tt][Tt][Pp].*|[A-Za-z]+_(proxy|PROXY)"
)


def container_options(
    task: Task, visible: Mapping[str, str], env: Mapping[str, str]
) -> tuple[list[str], dict[str, str], bytes | None]:
    """Return options, podman's environment, and its standard input.

    Standard input, if any, has variables in a file's form: hidden ones with a name that podman itself would
    interpret.

    Args:
        task: the task to run.
        visible: variables that select the visible GPUs.
        env: the user's environment.

    Raises:
        EngineError: a hidden variable of such a name has several lines; a limit is more than the caller may
            have.
    """
    # Without the proxies of the host, which podman passes on by default, and without a log.
    options = ["--pull", "never", "--log-driver", "none", "--http-proxy=false"]
    options += ["--network", task.network] if task.network != DEFAULT_NETWORK else []
    options += ["--interactive"] * task.stdin + ["--tty"] * task.terminal
    for port in task.ports:
        address = f"[{port.address}]" if ":" in port.address else port.address
        options += ["--publish", f"{address}:{port.host}:{port.inside}"]
    options += ["--shm-size", f"{task.shared_memory}b"]
    user = _container_user(task.user)
    options += ["--user", user] if user else []
    options += ["--workdir", task.workdir] if task.workdir else []
    for limit in _container_limits(task):
        options += ["--ulimit", f"{limit.name}={limit.soft}:{limit.hard}"]
    for host, inside in task.volumes:
        options += ["--volume", f"{host}:{inside}:{'ro' if inside in task.read_only else 'rw'}"]
    environment, lines = dict(env), []
    for name, value in {**visible, **identity_variables(user), **task.environment}.items():
        # Podman takes a name that ends in `*` and has no value for all variables of its own that begin so.
        if not OF_PODMAN.fullmatch(name) and "*" not in name:
            options += ["--env", name]
            environment[name] = value
        elif name not in task.hidden:
            options += ["--env", f"{name}={value}"]
        elif "\n" in value:
            raise EngineError(
                f"podman cannot be given {name} out of sight: it has several lines",
                hint="give it another name, mount it as a file with -v, or choose another engine with --engine",
            )
        else:
            lines.append(f"{name}={value}\n")
    if lines:
        options += ["--env-file", "/dev/stdin"]
    return options, environment, "".join(lines).encode("utf-8", "surrogateescape") if lines else None


def gpu_options(gpus: str) -> tuple[list[str], dict[str, str]]:
    """Return options and variables for the GPUs of a container.

    They are names of CDI, or AMD's nodes with the groups that own them. A user's own groups are not the same
    in a container, but can be kept as they are (only with crun).

    https://docs.podman.io/en/stable/markdown/podman-run.1.html#device-host-device-container-device-permissions
    """
    if not gpus:
        return [], {}
    if gpu.vendor(gpus) != gpu.AMD:
        return [word for name in gpu.cdi_names(gpus) for word in ("--device", name)], {}
    groups = gpu.amd_groups() if os.geteuid() == 0 else ("keep-groups",)
    nodes = [word for node, inside in gpu.amd_devices().items() for word in ("--device", f"{node}:{inside}")]
    visible = {gpu.AMD_VISIBLE: gpus} if gpu.gpu_ids(gpus) else {}
    return [*nodes, *(word for group in groups for word in ("--group-add", group))], visible


def _container_user(user: str) -> str:
    """Return the user in the container.

    For a user other than root, root in the container is already the caller.
    """
    return "" if user == "caller" else user


def _container_limits(task: Task) -> list[Limit]:
    """Return the limits of a container, with podman's defaults added.

    If one is given, podman ignores its settings, and requests its own.

    https://docs.podman.io/en/stable/markdown/podman-run.1.html#ulimit-option
    """
    if not (task.limits or task.generous):
        return []
    if os.geteuid() == 0 and may_raise():
        return task_limits(task)
    caller_limits = limits_of_caller(task)
    named = {limit.name for limit in caller_limits}
    return [*caller_limits, *(limit for limit in _process_limits() if limit.name not in named)]


def _process_limits() -> list[Limit]:
    """Return the process's limits for files and processes.

    Podman lowers its own number of processes to pid_max.
    """
    files, processes = hard_limit("nofile"), hard_limit("nproc")
    most = int(Path("/proc/sys/kernel/pid_max").read_text())
    processes = most if processes == -1 else min(most, processes)
    return [
        Limit(name=name, soft=hard, hard=hard) for name, hard in (("nofile", files), ("nproc", processes))
    ]
