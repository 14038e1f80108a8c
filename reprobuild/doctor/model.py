"""Values of the doctor: what a machine is, as plain facts, and what is found of it.

Facts are gathered in one place (`host`) and judged by functions that read nothing else, so that a machine which does
not exist is judged like any other.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from reprobuild.doctor.preflight.gpus import Gpus
from reprobuild.errors import EngineError, InconclusiveError

State = Literal["ok", "not-asked", "warning", "unknown", "problem"]


class EngineFound(Struct, frozen=True, kw_only=True):
    """One engine: its version where it answers, and else its program and what that complains of, where it is there."""

    name: str
    version: str = ""
    program: str = ""
    complaint: str = ""


class Disk(Struct, frozen=True, kw_only=True):
    """A folder that is written to: what for, and the file system that holds it.

    `free` is in bytes; `kind` is the kernel's name of the file system, empty where it is not told.
    """

    role: Literal["store", "temporary", "results", "docker", "podman", "apptainer"]
    path: str
    free: int
    kind: str = ""
    noexec: bool = False
    readonly: bool = False
    writable: bool = True


class Namespaces(Struct, frozen=True, kw_only=True):
    """Whether the caller may make namespaces (`complaint` is empty), and mount an overlay in them.

    `settings` are those of the kernel that may forbid it, by name, where the kernel has them.
    """

    complaint: str = ""
    overlay: bool = True
    settings: dict[str, str] = {}


class Fabric(Struct, frozen=True, kw_only=True):
    """InfiniBand and RoCE: devices of the kernel, their nodes for programs, and the memory that may be locked.

    `locked` is in bytes, -1 for no limit. `interfaces` are the names of all network interfaces.
    """

    devices: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    locked: int = -1
    interfaces: tuple[str, ...] = ()


class Host(Struct, frozen=True, kw_only=True):
    """One machine, as its own programs and files tell it.

    `system`, `machine` and `kernel` are what `uname` says; `manager` is its package manager, empty for none that is
    known; `modules` tells whether `module load` is there; `container` whether this is one;
    `systemd` whether it runs services. `programs` are those of
    `PROGRAMS` that are on PATH. `memory` is in bytes, 0 where not known; `cgroup` is "2", "1", "hybrid" or "". `docker`
    says what its socket is: "there", "refused", "absent", or "elsewhere" where DOCKER_HOST is set. `subordinate` tells
    whether the user has subordinate ids, None where a directory service knows. `vendors` are whose GPUs there are,
    and `cdi` whether engines are told of NVIDIA's. `scheduler` is "slurm" or empty.
    """

    system: str = "Linux"
    machine: str = "x86_64"
    kernel: str = ""
    distribution: str = ""
    manager: str = ""
    modules: bool = False
    container: bool = False
    systemd: bool = False
    root: bool = False
    user: str = ""
    glibc: str = ""
    cpu: str = ""
    flags: frozenset[str] = frozenset()
    cpus: int = 0
    memory: int = 0
    engines: tuple[EngineFound, ...] = ()
    programs: frozenset[str] = frozenset()
    squashfs: str = ""
    namespaces: Namespaces = Namespaces()
    cgroup: str = ""
    docker: str = ""
    subordinate: bool | None = None
    disks: tuple[Disk, ...] = ()
    vendors: tuple[str, ...] = ()
    gpus: Gpus = Gpus()
    cdi: bool = False
    fabric: Fabric = Fabric()
    scheduler: str = ""

    @property
    def answering(self) -> tuple[EngineFound, ...]:
        """The engines that answer."""
        return tuple(engine for engine in self.engines if engine.version)

    def has_engine(self, name: str) -> bool:
        """Tell whether an engine answers."""
        return any(engine.name == name for engine in self.answering)

    def disk(self, role: str) -> Disk | None:
        """Return the disk of that role."""
        return next((disk for disk in self.disks if disk.role == role), None)


# What is looked for on PATH. The first row is what the sandbox of a build is made of.
SANDBOX = ("unshare", "mount", "hostname", "sh")
PROGRAMS = (*SANDBOX, "git", "apt-get", "newuidmap", "nvidia-ctk", "runc")


class DoctorFinding(Struct, frozen=True, kw_only=True):
    """One thing that was looked at: what was seen, what follows from it, and what to do.

    `unknown` is what could not be judged, `not-asked` what the user left out. A finding that is `ok` has no meaning
    and no fix.
    """

    name: str
    state: State
    seen: str
    meaning: str = ""
    fix: str = ""


class Diagnosis(Struct, frozen=True, kw_only=True):
    """All findings, in the order in which they are told."""

    findings: tuple[DoctorFinding, ...]

    @property
    def state(self) -> State:
        """The gravest state among them."""
        order: tuple[State, ...] = ("problem", "unknown", "warning", "ok")
        states = {finding.state for finding in self.findings}
        return next((state for state in order if state in states), "ok")

    @property
    def exit_code(self) -> int:
        """6 where something will not do, 9 where something could not be judged, else 0."""
        codes = {"problem": EngineError.exit_code, "unknown": InconclusiveError.exit_code}
        return codes.get(self.state, 0)
