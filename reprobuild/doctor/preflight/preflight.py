"""Checks before gigabytes are copied.

They cover architecture, glibc, namespaces, disks, processor and GPUs.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from reprobuild.doctor.preflight.disks import check_disks
from reprobuild.doctor.preflight.glibc import check_glibc
from reprobuild.doctor.preflight.gpus import check_gpus
from reprobuild.doctor.preflight.processor import check_processor
from reprobuild.errors import UsageError
from reprobuild.infra.sandbox.namespaces import check_namespaces
from reprobuild.lock.model import Lock
from reprobuild.realise.realise import is_realised
from reprobuild.resolve.cuda.nvidia_smi import Gpus, query_gpus
from reprobuild.store.store import Store

__all__ = ["TargetMachine", "check_gpus", "inspect_machine", "machines_of", "preflight"]

_MACHINES = {"amd64": ("x86_64",), "arm64": ("aarch64", "arm64")}


class TargetMachine(Struct, frozen=True, kw_only=True):
    """This machine: its architecture, processor flags and GPUs.

    The architecture has the kernel's name; the flags are empty if unknown.
    """

    name: str
    flags: frozenset[str]
    gpus: Gpus = Gpus()


def inspect_machine(env: Mapping[str, str]) -> TargetMachine:
    """Return the machine as kernel and GPU driver describe it.

    `env` leads to the program of the driver.
    """
    try:
        match = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text("utf-8"), re.MULTILINE)
    except OSError:
        match = None
    flags = frozenset(match[1].split()) if match else frozenset()
    return TargetMachine(name=platform.machine(), flags=flags, gpus=query_gpus(env))


def preflight(lock: Lock, store: Store, out: Path, machine: TargetMachine, gpus: str = "auto") -> list[str]:
    """Check a machine before a build, and return the risks.

    Args:
        gpus: the user's request: "auto", "all", "none", or ids.

    Raises:
        UsageError: a disk lacks room for the files to fetch, the machine has another architecture, or a
            requested GPU cannot run the image.
        LockError: a wheel needs a newer glibc than the base has.
        EngineError: programs must be run, and no sandbox is available.
    """
    check_glibc(lock)
    realised = is_realised(lock, store)
    warnings = list(_check_architecture(lock, machine, realised))
    if not realised:
        check_namespaces()
    return [
        *warnings,
        *check_disks(lock, store, out, realised),
        *check_processor(lock, machine.flags),
        *check_gpus(lock, store, machine.gpus, gpus),
    ]


def machines_of(lock: Lock) -> tuple[str, ...]:
    """Return the kernels' names for the architecture of a lock."""
    architecture = lock.platform.split("/")[1]  # OS/ARCHITECTURE[/VARIANT]
    return _MACHINES.get(architecture, (architecture,))


def _check_architecture(lock: Lock, machine: TargetMachine, realised: bool) -> Iterator[str]:
    if machine.name in machines_of(lock):
        return
    text = f"the lock is of {lock.platform}, and this machine is {machine.name}"
    if not realised:
        raise UsageError(text, hint="build it on such a machine: programs of the image must be run for it")
    yield f"{text}: the image can be built, and not be run here"
