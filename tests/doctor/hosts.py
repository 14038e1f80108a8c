"""Machines that do not exist."""

from __future__ import annotations

from typing import Any

import msgspec

from reprobuild.doctor.model import PROGRAMS, Disk, DoctorFinding, EngineFound, Host, Namespaces
from reprobuild.resolve.cuda.nvidia_smi import Gpus
from reprobuild.resolve.cuda.rules import DriverGpu

GB = 10**9
PODMAN = EngineFound(name="podman", version="4.9.3", program="/usr/bin/podman")
DOCKER = EngineFound(name="docker", version="26.1.5", program="/usr/bin/docker")
APPTAINER = EngineFound(name="apptainer", version="1.3.4", program="/usr/bin/apptainer")
A100 = Gpus(
    driver="550.54.15",
    found=(DriverGpu(index="0", uuid="GPU-1", name="NVIDIA A100-SXM4-80GB", capability="8.0"),),
)
WELL = Host(
    kernel="6.1.0-28-amd64", distribution="Debian GNU/Linux 12 (bookworm)", manager="apt", systemd=True,
    user="ada", glibc="2.36", cpu="made processor", flags=frozenset({"avx", "avx2", "fma", "sse4_2"}), cpus=16,
    memory=64 << 30, engines=(PODMAN,), programs=frozenset(PROGRAMS), squashfs="4.6", namespaces=Namespaces(),
    cgroup="2", docker="absent", subordinate=True,
    disks=tuple(
        Disk(role=role, path=f"/made/{role}", free=500 * GB, kind="ext4")
        for role in ("store", "temporary", "results", "builtin", "docker", "podman", "apptainer")
    ),
)  # fmt: skip


def host(**more: Any) -> Host:
    """Return the machine on which all is well, with other facts."""
    return msgspec.structs.replace(WELL, **more)


def without(*programs: str) -> frozenset[str]:
    """Return all programs but these."""
    return frozenset(PROGRAMS) - {*programs}


def disks(role: str, **more: Any) -> tuple[Disk, ...]:
    """Return the disks, one of which has other facts."""
    return tuple(msgspec.structs.replace(disk, **more) if disk.role == role else disk for disk in WELL.disks)


def told(findings: Any, name: str) -> DoctorFinding:
    """Return the one finding of that name."""
    (found,) = [finding for finding in findings if finding.name == name]
    return found


def states(findings: Any) -> dict[str, str]:
    """Return {name: state} of all that is not ok."""
    return {finding.name: finding.state for finding in findings if finding.state != "ok"}
