"""Resource limits of a container, requested or generous for training.

RDMA registers memory that must not be swapped, and compiled kernels have deep stacks: the generous limits are
those of NVIDIA's containers.
https://docs.nvidia.com/deeplearning/frameworks/user-guide/index.html#setincshmem
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from reprobuild.engines.model import Limit, Task
from reprobuild.errors import EngineError

GENEROUS = (Limit(name="memlock", soft=-1, hard=-1), Limit(name="stack", soft=64 << 20, hard=-1))
REFUSED = "error setting rlimit"  # runc and crun report it before any command of the container
_CAP_SYS_RESOURCE = 24
T = TypeVar("T")


def task_limits(task: Task) -> list[Limit]:
    """Return the limits of a container as the task asks.

    Its engine may set any limit.
    """
    by_name = {limit.name: limit for limit in task.limits}
    return [*(limit for limit in GENEROUS if task.generous and limit.name not in by_name), *task.limits]


def start_with_limits(start: Callable[[Task], T], task: Task) -> T:
    """Start a task; an engine that may not raise limits (inside a container) applies its own, not generous ones.

    Raises:
        EngineError: of `start`; also if the user's own limits are refused.
    """
    try:
        return start(task)
    except EngineError as err:  # the command has not run yet: limits are set before it
        if not (task.generous and REFUSED in str(err)):
            raise
    return start(msgspec.structs.replace(task, generous=False))


def limits_of_caller(task: Task) -> list[Limit]:
    """Return the limits of a container, bounded by the caller's.

    The container is a child of this process, so its limits are at most the hard limits of the process.

    Raises:
        EngineError: a requested limit is higher.
    """
    result = []
    for limit in task_limits(task):
        ceiling = hard_limit(limit.name)
        if limit in task.limits and (_is_higher(limit.hard, ceiling) or _is_higher(limit.soft, ceiling)):
            raise EngineError(
                f"--ulimit {limit.name}: {_limit_text(limit.hard)} is more than you may have here, "
                f"{_limit_text(ceiling)}",
                hint="ask for no more, or let the administrator raise it (/etc/security/limits.conf, Slurm's "
                "PropagateResourceLimits)",
            )
        result.append(
            Limit(
                name=limit.name,
                soft=_lower_limit(limit.soft, ceiling),
                hard=_lower_limit(limit.hard, ceiling),
            )
        )
    return result


def may_raise() -> bool:
    """Return whether this process may raise its own limits.

    Its capabilities decide (capabilities(7)).
    """
    status = Path("/proc/self/status").read_text().splitlines()
    capabilities = next((line.split()[1] for line in status if line.startswith("CapEff:")), "0")
    return bool(int(capabilities, 16) >> _CAP_SYS_RESOURCE & 1)


def hard_limit(name: str) -> int:
    """Return the hard limit of this process, -1 for unlimited."""
    import resource  # not on Windows

    _, hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))
    return -1 if hard == resource.RLIM_INFINITY else hard


def _is_higher(first: int, second: int) -> bool:
    return second != -1 and (first == -1 or first > second)


def _lower_limit(first: int, second: int) -> int:
    return second if _is_higher(first, second) else first


def _limit_text(value: int) -> str:
    return "unlimited" if value == -1 else str(value)
