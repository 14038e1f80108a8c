"""The check of a machine for images. Pure.

It is about making, testing and running them.

Facts in, findings out.
"""

from __future__ import annotations

from collections.abc import Iterator

from reprobuild.doctor.fixes import describe_installation, with_sudo
from reprobuild.doctor.model import SANDBOX, Disk, DoctorFinding, Host

GB = 1e9
_LEAST, _ROOM = 2 * GB, 20 * GB  # bytes of a disk: too little for anything; a small environment with CUDA
_MEMORY = 2 << 30
_LOCKED = 1 << 30
# What names another directory, by the role of a disk.
_SETTINGS = {
    "store": "--store", "temporary": "TMPDIR", "results": "--output", "builtin": "XDG_CACHE_HOME",
    "apptainer": "XDG_CACHE_HOME",
}  # fmt: skip
_PACKAGES = {"hostname": "hostname", "sh": "coreutils"}
# Rootless podman cannot store images there: https://github.com/containers/podman/blob/main/rootless.md
_NETWORK_DISKS = ("nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "beegfs", "ceph", "fuse.sshfs", "9p")


def judge_system(host: Host) -> Iterator[DoctorFinding]:
    """Yield the finding on the operating system."""
    text = " ".join(filter(None, (host.distribution or host.system, host.kernel, host.machine)))
    if host.system == "Linux":
        yield DoctorFinding(name="system", state="ok", seen=text)
        return
    yield DoctorFinding(
        name="system", state="problem", seen=text,
        meaning="images are made and run with namespaces of Linux; `capture`, `show`, `compare`, `unbundle` need none",
        fix="use a Linux machine, or a virtual one (on Windows: WSL 2)",
    )  # fmt: skip


def judge_sandbox(host: Host) -> Iterator[DoctorFinding]:
    """Yield a finding on the sandbox that `build` needs.

    The sandbox isolates the programs of packages.
    """
    missing = [name for name in SANDBOX if name not in host.programs]
    if missing:
        packages = dict.fromkeys(_PACKAGES.get(name, "util-linux") for name in missing)
        yield DoctorFinding(
            name="sandbox", state="problem", seen=f"not on PATH: {', '.join(missing)}",
            meaning="`build` runs the programs of packages without network, with these",
            fix="; ".join(describe_installation(name, host) for name in packages),
        )  # fmt: skip
        return
    spaces = host.namespaces
    if spaces.complaint:
        yield DoctorFinding(
            name="sandbox", state="problem", seen=spaces.complaint,
            meaning="`build` cannot run the programs of packages without network; `run` and `verify` need this only "
            "where Apptainer or podman without root runs the image",
            fix=_allow_namespaces(host),
        )  # fmt: skip
    elif not spaces.overlay:
        yield DoctorFinding(
            name="sandbox", state="warning", seen="namespaces can be made, and no overlay mounted in them",
            meaning="wheels of sources are built on copies of the base, which takes longer and more room",
            fix="a kernel from 5.11 on allows it; in a container, start that with `--security-opt seccomp=unconfined`",
        )  # fmt: skip
    else:
        yield DoctorFinding(
            name="sandbox", state="ok", seen="namespaces can be made, and overlays mounted in them"
        )


def _allow_namespaces(host: Host) -> str:
    """Return the advice on allowing namespaces.

    It names the setting that forbids them, if there is one.
    """
    forbids = {
        "kernel.unprivileged_userns_clone": ("0", "1"),
        "kernel.apparmor_restrict_unprivileged_userns": ("1", "0"),
        "user.max_user_namespaces": ("0", "15000"),
    }
    commands = [
        f"`{with_sudo(f'sysctl -w {name}={good}', host)}`"
        for name, (bad, good) in forbids.items()
        if host.namespaces.settings.get(name) == bad
    ]
    if commands:
        return f"{' and '.join(commands)}; a file in /etc/sysctl.d keeps it"
    if host.container:
        return (
            "start this container with `--security-opt seccomp=unconfined --security-opt apparmor=unconfined`"
        )
    return "no setting of the kernel forbids it: ask the administrators of this machine about seccomp and SELinux"


def judge_programs(host: Host) -> Iterator[DoctorFinding]:
    """Yield findings on the programs that single steps need."""
    if "apt-get" in host.programs:
        yield DoctorFinding(name="apt", state="ok", seen="apt-get is there")
    else:
        yield DoctorFinding(
            name="apt", state="warning", seen="there is no apt-get",
            meaning="`lock` asks the dated archives for every system package, which must then be reachable",
            fix="lock on a Debian or Ubuntu machine, or in a container of one; build, verify and run here",
        )  # fmt: skip
    if "git" in host.programs:
        yield DoctorFinding(name="git", state="ok", seen="git is there")
    else:
        yield DoctorFinding(
            name="git", state="warning", seen="there is no git",
            meaning="`capture` and `lock` cannot read repositories", fix=describe_installation("git", host),
        )  # fmt: skip
    if host.squashfs.replace(".", "").isdigit():
        yield DoctorFinding(name="squashfs", state="ok", seen=f"mksquashfs {host.squashfs}")
    else:
        needed = host.has_engine("apptainer") and len(host.available_engines) == 1
        yield DoctorFinding(
            name="squashfs", state="problem" if needed else "warning",
            seen=host.squashfs or "there is no mksquashfs",
            meaning="Apptainer runs no image without it" if needed else "no file for Apptainer or enroot can be made",
            fix=f"{describe_installation('squashfs-tools', host)} (4.5 or newer)",
        )  # fmt: skip


def judge_disks(host: Host) -> Iterator[DoctorFinding]:
    """Yield findings on the directories that are written to."""
    for disk in host.disks:
        if disk.role in ("builtin", "docker", "podman", "apptainer") and not host.has_engine(disk.role):
            continue
        name, place = f"disk: {disk.role}", _describe_directory(disk)
        elsewhere = _other_directory_hint(disk)
        if unfit := judge_writability(disk):
            yield unfit
        elif disk.free < _ROOM:
            yield DoctorFinding(
                name=name, state="problem" if disk.free < _LEAST else "warning",
                seen=f"{place} has room for {disk.free / GB:.1f} GB",
                meaning="an environment with CUDA takes 20 GB and more while it is made",
                fix=f"{_clean_hint(disk)}, or {elsewhere}",
            )  # fmt: skip
        elif disk.noexec and disk.role in ("store", "temporary"):
            store = disk.role == "store"
            yield DoctorFinding(
                name=name, state="problem" if store else "warning", seen=f"{place} is mounted noexec",
                meaning="`build` runs the programs of packages from directories of the store" if store else
                "the builder Apptainer, and programs that compile there, cannot run what they write",
                fix=elsewhere,
            )  # fmt: skip
        elif disk.role == "podman" and not host.root and disk.kind in _NETWORK_DISKS:
            yield DoctorFinding(
                name=name, state="warning", seen=f"podman keeps images on {place}",
                meaning="without root it cannot: such file systems know no subordinate users",
                fix="set `graphroot` below [storage] in ~/.config/containers/storage.conf to a local disk",
            )  # fmt: skip
        else:
            yield DoctorFinding(name=name, state="ok", seen=f"{place} has room for {disk.free / GB:.0f} GB")
    yield from (
        report_unknown_disk(engine.name)
        for engine in host.available_engines
        if host.disk(engine.name) is None
    )


def report_unknown_disk(role: str, size: str = "images") -> DoctorFinding:
    """Return the finding on a role whose disk is unknown."""
    return DoctorFinding(
        name=f"disk: {role}", state="unknown", seen="the drive is unknown, or on another machine",
        meaning=f"whether there is room for {size} is not known",
        fix=f"name a directory that is there with {_SETTINGS[role]}" if role in _SETTINGS
        else f"see in `{role} info` where it keeps images, and ask `df` there",
    )  # fmt: skip


def judge_writability(disk: Disk) -> DoctorFinding | None:
    """Return the finding on an unwritable directory, else None.

    Docker's own directory is written by its daemon, so the user needs no access to it.
    """
    if disk.role == "docker" or (disk.writable and not disk.readonly):
        return None
    how = "mounted read-only" if disk.readonly else "not yours to write to"
    return DoctorFinding(
        name=f"disk: {disk.role}", state="problem", seen=f"{_describe_directory(disk)} is {how}",
        meaning="nothing can be written there", fix=_other_directory_hint(disk),
    )  # fmt: skip


def _describe_directory(disk: Disk) -> str:
    return f"{disk.path} ({disk.kind})" if disk.kind else disk.path


def _other_directory_hint(disk: Disk) -> str:
    other = _SETTINGS.get(disk.role, "")
    return f"name another directory with {other}" if other else f"see the settings of {disk.role}"


def _clean_hint(disk: Disk) -> str:
    """Return what makes room on a disk."""
    if disk.role in ("builtin", "apptainer"):
        return f"delete {disk.path} (the next run makes its image again)"
    return "make room (`reprobuild store gc` cleans the store)"


def judge_resources(host: Host) -> Iterator[DoctorFinding]:
    """Yield findings on memory and control groups."""
    text = f"{host.cpus} processors, {host.memory / GB:.0f} GB of memory"
    if 0 < host.memory < _MEMORY:
        yield DoctorFinding(
            name="memory", state="warning", seen=text, meaning="packing layers and loading images may fail",
            fix="give this machine, container or job 2 GB or more",
        )  # fmt: skip
    else:
        yield DoctorFinding(name="memory", state="ok", seen=text)
    if host.cgroup == "2":
        yield DoctorFinding(name="control groups", state="ok", seen="version 2")
    elif host.cgroup == "hybrid" and host.has_engine("podman") and "runc" not in host.programs:
        yield DoctorFinding(
            name="control groups", state="warning", seen="the hybrid form of versions 1 and 2",
            meaning="crun before 1.9, podman's usual runtime, refuses it",
            fix=f'{describe_installation("runc", host)}, and write `runtime = "runc"` below [engine] in '
            "~/.config/containers/containers.conf",
        )  # fmt: skip
    else:
        version = {"1": "version 1", "hybrid": "the hybrid form of versions 1 and 2"}.get(
            host.cgroup, "there are none"
        )
        yield DoctorFinding(
            name="control groups", state="warning", seen=version,
            meaning="engines without root cannot limit memory and processors; all else works",
            fix=_unified_groups_advice(host),
        )  # fmt: skip


def _unified_groups_advice(host: Host) -> str:
    """Return the advice on version 2 of control groups, for a machine with systemd or without it."""
    if host.container:
        return "if you need limits, change the machine below this container: no command in it can"
    option = "systemd.unified_cgroup_hierarchy=1" if host.systemd else "cgroup_no_v1=all"
    return f"boot the kernel with `{option}`, if you need limits"


def judge_fabric(host: Host) -> Iterator[DoctorFinding]:
    """Yield the finding on InfiniBand and RoCE.

    Jobs on several nodes use them for communication.
    """
    fabric = host.fabric
    if not fabric.devices:
        yield DoctorFinding(
            name="fabric", state="ok", seen="no InfiniBand and no RoCE: several nodes would talk by TCP"
        )
        return
    devices = ", ".join(fabric.devices)
    if not fabric.nodes:
        yield DoctorFinding(
            name="fabric", state="warning", seen=f"{devices}, and no /dev/infiniband/uverbs*",
            meaning="programs cannot use it: NCCL falls back to TCP, or fails",
            fix=f"`{with_sudo('modprobe ib_uverbs', host)}`",
        )  # fmt: skip
    elif 0 <= fabric.locked < _LOCKED:
        yield DoctorFinding(
            name="fabric", state="warning", seen=f"{devices}, and {fabric.locked >> 10} KiB of memory may be locked",
            meaning="registering memory fails: NCCL says `ibv_reg_mr failed` or `unable to allocate memory`",
            fix="`ulimit -l unlimited`; a line `* - memlock unlimited` in /etc/security/limits.d keeps it, and "
            "PropagateResourceLimitsExcept=MEMLOCK in slurm.conf under Slurm",
        )  # fmt: skip
    else:
        yield DoctorFinding(name="fabric", state="ok", seen=devices)
