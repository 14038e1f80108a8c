"""Values of the doctor: facts of a machine, and findings.

Facts are collected in one place (`host`) and judged by functions that read no other data, so a fictitious
machine is judged like any other.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from reprobuild.errors import EngineError, InconclusiveError
from reprobuild.resolve.cuda.nvidia_smi import Gpus

State = Literal["ok", "not-asked", "warning", "unknown", "problem"]


class EngineFound(Struct, frozen=True, kw_only=True):
    """An engine: its version, or its program and error.

    An engine with a version answers. `program` and `complaint` are empty if the program is missing.
    """

    name: str
    version: str = ""
    program: str = ""
    complaint: str = ""


class Disk(Struct, frozen=True, kw_only=True):
    """A written directory: its role and file system.

    `free` is in bytes; `kind` is the kernel's name of the file system, empty if unknown.
    """

    role: Literal["store", "temporary", "results", "builtin", "docker", "podman", "apptainer"]
    path: str
    free: int
    kind: str = ""
    noexec: bool = False
    readonly: bool = False
    writable: bool = True


class Namespaces(Struct, frozen=True, kw_only=True):
    """The caller's ability to make namespaces, and overlays in them.

    `complaint` is empty if namespaces are possible. `settings` are the existing settings of the kernel that
    may forbid them, by name.
    """

    complaint: str = ""
    overlay: bool = True
    settings: dict[str, str] = {}


class Fabric(Struct, frozen=True, kw_only=True):
    """InfiniBand and RoCE: kernel devices, their nodes, and lockable memory.

    `locked` is the memory that may be locked, in bytes, -1 for no limit. `interfaces` are the names of all
    network interfaces.
    """

    devices: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    locked: int = -1
    interfaces: tuple[str, ...] = ()


class Host(Struct, frozen=True, kw_only=True):
    """A machine, as its own programs and files describe it.

    `system`, `machine` and `kernel` are from `uname`; `manager` is its package manager, empty if unknown;
    `modules` is true if `module load` is available, `container` if the machine is a container, `systemd` if
    systemd runs services. `programs` are those of `PROGRAMS` that are on PATH. `memory` is in bytes, 0 if
    unknown; `cgroup` is "2", "1", "hybrid" or "". `docker` is the state of its socket: "there", "refused",
    "absent", or "elsewhere" if DOCKER_HOST is set. `subordinate` is true if the user has subordinate ids,
    None if a directory service decides. `vendors` are the vendors of its GPUs, and `cdi` is true if engines
    have a description of NVIDIA's. `scheduler` is "slurm" or empty.
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
    def available_engines(self) -> tuple[EngineFound, ...]:
        """The engines that answer."""
        return tuple(engine for engine in self.engines if engine.version)

    def has_engine(self, name: str) -> bool:
        """Return whether an engine answers."""
        return any(engine.name == name for engine in self.available_engines)

    def disk(self, role: str) -> Disk | None:
        """Return the disk with this role, or None."""
        return next((disk for disk in self.disks if disk.role == role), None)


# The programs to look for on PATH. The first row is for the sandbox of a build.
SANDBOX = ("unshare", "mount", "hostname", "sh")
PROGRAMS = (
    *SANDBOX, "git", "apt-get", "newuidmap", "nvidia-ctk", "runc", "dockerd", "sudo", "su", "service",
)  # fmt: skip


class DoctorFinding(Struct, frozen=True, kw_only=True):
    """A finding: the fact, its meaning, and the fix.

    `unknown` is a fact that could not be judged, `not-asked` one that the user left out. A finding that is
    `ok` has no meaning and no fix.
    """

    name: str
    state: State
    seen: str
    meaning: str = ""
    fix: str = ""


class Diagnosis(Struct, frozen=True, kw_only=True):
    """All findings, in the order of the report."""

    findings: tuple[DoctorFinding, ...]

    @property
    def state(self) -> State:
        """The most serious state among the findings."""
        order: tuple[State, ...] = ("problem", "unknown", "warning", "ok")
        states = {finding.state for finding in self.findings}
        return next((state for state in order if state in states), "ok")

    @property
    def exit_code(self) -> int:
        """The exit code: 6 for a problem, 9 for an unknown, else 0."""
        codes = {"problem": EngineError.exit_code, "unknown": InconclusiveError.exit_code}
        return codes.get(self.state, 0)
