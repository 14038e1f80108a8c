"""The facts of this machine, collected without changes.

In the doctor only this module examines the machine.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

from reprobuild.doctor.disks import engine_directories, inspect_disks
from reprobuild.doctor.fixes import list_managers
from reprobuild.doctor.model import PROGRAMS, EngineFound, Fabric, Host, Namespaces
from reprobuild.doctor.preflight.preflight import inspect_machine
from reprobuild.engines import apptainer, builtin, docker, gpu, podman
from reprobuild.engines.model import Engine
from reprobuild.engines.registry import ENGINES
from reprobuild.errors import EngineError
from reprobuild.image.formats.squashfs_write import find_program
from reprobuild.infra import proc
from reprobuild.infra.sandbox.namespaces import can_mount_overlay, check_namespaces
from reprobuild_portable import secrets

# Programs of package managers; the first one found counts. Homebrew may be beside another one.
_MANAGERS = {"apt-get": "apt", "dnf": "dnf", "yum": "yum", "zypper": "zypper", "apk": "apk", "pacman": "pacman",
             "brew": "brew"}  # fmt: skip
_SETTINGS = (
    "kernel.unprivileged_userns_clone", "kernel.apparmor_restrict_unprivileged_userns", "user.max_user_namespaces",
)  # fmt: skip
_SOCKET = "var/run/docker.sock"
_CDI = ("etc/cdi", "var/run/cdi")  # https://github.com/cncf-tags/container-device-interface
_UNIFIED = "sys/fs/cgroup", "memory.max"
_MEMORY_V1 = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
_SECONDS = 30
_LONGEST = 300
ROOT = Path("/")


def inspect_host(env: Mapping[str, str], folders: Mapping[str, Path], root: Path = ROOT) -> Host:
    """Return the facts of this machine.

    Args:
        env: the user's environment.
        folders: the directories that are written to, by their role (`Disk.role`); those of engines that
            answer are added.
        root: the parent of /etc, /proc, /sys and /dev.
    """
    programs = frozenset(name for name in PROGRAMS if proc.which(name, env))
    # Each may wait for a daemon or a driver.
    with ThreadPoolExecutor(max_workers=8) as pool:
        futures = [pool.submit(_inspect_engine, name, env) for name in ENGINES]
        machine, squashfs = pool.submit(inspect_machine, env), pool.submit(_squashfs_version, env)
        namespaces = pool.submit(_inspect_namespaces, root)
        about = platform.uname()
        engines = tuple(engine.result() for engine in futures)
        places = engine_directories([engine.name for engine in engines if engine.version], env)
        return Host(
            system=about.system, machine=about.machine, kernel=about.release, distribution=_distribution(root),
            manager=_find_manager(env), modules="LMOD_CMD" in env or "MODULESHOME" in env,
            container=_is_container(root),
            systemd=(root / "run/systemd/system").is_dir(), root=os.name != "nt" and os.geteuid() == 0,
            user=_user_name(), glibc=platform.libc_ver()[1], cpu=_cpu(root),
            flags=machine.result().flags, cpus=_cpus(), memory=_memory(root),
            engines=engines, programs=programs, squashfs=squashfs.result(),
            namespaces=namespaces.result(), cgroup=_cgroup(root), docker=_docker_state(env, root),
            subordinate=_has_subordinate_ids(root, _user_name()), disks=inspect_disks({**folders, **places}, root),
            vendors=gpu.find_vendors(root), gpus=machine.result().gpus, cdi=_has_cdi(root),
            fabric=_inspect_fabric(root),
            scheduler="slurm" if proc.which("sbatch", env) else "",
        )  # fmt: skip


def _inspect_engine(name: str, env: Mapping[str, str]) -> EngineFound:
    if name == builtin.NAME:
        return EngineFound(
            name=name, version=builtin.version(env) or "", complaint=_shorten(builtin.find_obstacle())
        )
    module = cast(Engine, {"docker": docker, "podman": podman, "apptainer": apptainer}[name])
    names = tuple(apptainer.PROGRAMS) if name == apptainer.NAME else (name,)
    program = next((path for program_name in names if (path := proc.which(program_name, env))), "")
    version = module.version(env) or ""
    if version and name == apptainer.NAME:
        try:
            apptainer.find_usable_program(env)
        except EngineError as err:  # it is too old
            return EngineFound(name=name, program=program, complaint=_shorten(str(err)))
    complaint = "" if version or not program else _read_complaint(name, program, env)
    return EngineFound(name=name, version=_shorten(version), program=program, complaint=complaint)


def _read_complaint(name: str, program: str, env: Mapping[str, str]) -> str:
    """Return an unavailable engine's last error line."""
    try:
        argv = [program, "version" if name == apptainer.NAME else "info"]
        proc.run(argv, env=env, purpose=f"ask {name} how it is", timeout=_SECONDS)
    except proc.ProcessFailedError as err:
        lines = err.stderr.strip().splitlines()
        return _shorten(lines[-1]) if lines else f"it exits with code {err.code}"
    except EngineError as err:
        return _shorten(str(err))
    return ""


def _shorten(text: str) -> str:
    """Return a text of another program in one short line, without the logins of addresses.

    `docker` repeats the address of DOCKER_HOST in its error.
    """
    plain = secrets.without_logins(text)  # first: a part of a login is not found
    return "".join(c if c.isprintable() else " " for c in plain)[:_LONGEST]


def _squashfs_version(env: Mapping[str, str]) -> str:
    """Return the version of mksquashfs, an error, or "".

    It is an error if the version is too old, and "" if the program is missing.
    """
    if not proc.which("mksquashfs", env):
        return ""
    try:
        return ".".join(map(str, find_program(env)))
    except EngineError as err:
        return _shorten(str(err))


def _inspect_namespaces(root: Path) -> Namespaces:
    settings = {}
    for name in _SETTINGS:
        value = _read_text(root / "proc/sys" / name.replace(".", "/")).strip()
        if value:
            settings[name] = _shorten(value)
    try:
        check_namespaces()
        return Namespaces(overlay=can_mount_overlay(), settings=settings)
    except EngineError as err:
        return Namespaces(complaint=_shorten(str(err)), overlay=False, settings=settings)


def _read_text(path: Path) -> str:
    """Return the text of a small system file.

    It is empty if the file is missing or unreadable.
    """
    with contextlib.suppress(OSError, ValueError), path.open(encoding="utf-8", errors="replace") as stream:
        return stream.read(1 << 20)
    return ""


def _distribution(root: Path) -> str:
    match = re.search(r'^PRETTY_NAME="?([^"\n]*)', _read_text(root / "etc/os-release"), re.MULTILINE)
    return _shorten(match[1]) if match else ""


def _find_manager(env: Mapping[str, str]) -> str:
    manager = next((_MANAGERS[name] for name in _MANAGERS if proc.which(name, env)), "")
    return manager if manager in list_managers() else ""


def _is_container(root: Path) -> bool:
    return (root / ".dockerenv").exists() or (root / "run/.containerenv").exists()


def _user_name() -> str:
    """Return the user's name, else the number."""
    with contextlib.suppress(ImportError, KeyError):
        import pwd  # not on Windows

        return pwd.getpwuid(os.geteuid()).pw_name
    return _user_number()


def _user_number() -> str:
    return str(os.geteuid()) if hasattr(os, "geteuid") else ""


def _cpu(root: Path) -> str:
    match = re.search(r"^model name\s*:\s*(.+)$", _read_text(root / "proc/cpuinfo"), re.MULTILINE)
    return _shorten(match[1].strip()) if match else ""


def _cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0


def _memory(root: Path) -> int:
    """Return the memory of the machine or control group.

    The result is in bytes. A job's own group is far below the root, and each group above it may have a limit,
    too: cgroups(7), cgroup-v2 and cgroup-v1/memory of the kernel's documentation.
    """
    match = re.search(r"^MemTotal:\s*(\d+) kB", _read_text(root / "proc/meminfo"), re.MULTILINE)
    whole = int(match[1]) << 10 if match else 0
    limits = [
        text for path in _memory_limit_files(root) if (text := _read_text(path).strip()[:20]).isdecimal()
    ]
    return min([whole, *map(int, limits)]) if whole else 0


def _memory_limit_files(root: Path) -> Iterator[Path]:
    """Yield the files that may limit this process's memory.

    They are those of its groups and all groups above them, in both versions.
    """
    places = [(_UNIFIED, ""), (_MEMORY_V1, "")]  # in a container its own group may be the root
    for line in _read_text(root / "proc/self/cgroup").splitlines():
        _, controllers, place = (*line.split(":", 2), "", "")[:3]
        if not controllers:
            places.append((_UNIFIED, place))
        elif "memory" in controllers.split(","):
            places.append((_MEMORY_V1, place))
    for (folder, name), place in places:
        parts = [part for part in place.split("/") if part not in ("", ".", "..")]
        for number in range(len(parts) + 1):
            yield root.joinpath(folder, *parts[:number], name)


def _cgroup(root: Path) -> str:
    folder = root / "sys/fs/cgroup"
    if (folder / "cgroup.controllers").exists():
        return "2"
    if (folder / "unified/cgroup.controllers").exists() or (folder / "unified/cgroup.procs").exists():
        return "hybrid"
    return "1" if (folder / "memory").is_dir() or (folder / "cpu").is_dir() else ""


def _docker_state(env: Mapping[str, str], root: Path) -> str:
    if env.get("DOCKER_HOST"):
        return "elsewhere"
    socket = root / _SOCKET
    try:
        socket.stat()
    except PermissionError:
        return "refused"
    except OSError:
        return "absent"
    return "there" if os.access(socket, os.W_OK) else "refused"


def _has_subordinate_ids(root: Path, user: str) -> bool | None:
    """Return whether files give the user subordinate ids.

    The result is None if /etc/nsswitch.conf names a service (subid(5)).
    """
    source = re.search(r"^subid:\s*(.+)$", _read_text(root / "etc/nsswitch.conf"), re.MULTILINE)
    if source and source[1].split() != ["files"]:
        return None
    names = {user, _user_number()}
    files = [_read_text(root / "etc" / name).splitlines() for name in ("subuid", "subgid")]
    return all(any(line.partition(":")[0] in names for line in lines) for lines in files)


def _has_cdi(root: Path) -> bool:
    return any(any((root / folder).glob("*nvidia*")) for folder in _CDI)


def _inspect_fabric(root: Path) -> Fabric:
    def names(folder: str) -> tuple[str, ...]:
        with contextlib.suppress(OSError):
            return tuple(sorted(_shorten(path.name) for path in (root / folder).iterdir()))
        return ()

    return Fabric(
        devices=names("sys/class/infiniband"),
        nodes=tuple(name for name in names("dev/infiniband") if name.startswith("uverbs")),
        locked=_lockable_memory(), interfaces=names("sys/class/net"),
    )  # fmt: skip


def _lockable_memory() -> int:
    """Return the bytes that may be locked, -1 for unlimited.

    Windows and macOS have no such limit.
    """
    with contextlib.suppress(ImportError, AttributeError):
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
        return -1 if limit == resource.RLIM_INFINITY else limit
    return -1
