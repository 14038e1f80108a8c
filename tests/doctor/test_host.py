"""Facts are gathered from files and programs: of this machine, and of directories that look like another one's."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprobuild.doctor.disks import default_directories, engine_directories, inspect_disks
from reprobuild.doctor.host import inspect_host
from reprobuild.doctor.model import PROGRAMS

OTHER = {
    "etc/os-release": 'NAME=Rocky\nPRETTY_NAME="Rocky Linux 9.4 (Blue Onyx)"\n',
    "etc/subuid": "root:100000:65536\n", "etc/subgid": "root:100000:65536\n",
    "proc/cpuinfo": "model name\t: made processor\nflags\t\t: avx\n", "proc/meminfo": "MemTotal:  4194304 kB\n",
    "sys/fs/cgroup/cgroup.controllers": "cpu\n", "sys/fs/cgroup/memory.max": "1073741824\n",
    "proc/sys/user/max_user_namespaces": "0\n", "sys/class/infiniband/mlx5_0/x": "", "dev/infiniband/uverbs0": "",
    "dev/infiniband/rdma_cm": "", "sys/class/net/ib0/x": "", "dev/nvidia0": "", "etc/cdi/nvidia.yaml": "",
    "run/.containerenv": "", "proc/self/mountinfo": "22 1 0:1 / / rw - ext4 /dev/sda rw\n"
    "23 22 0:2 / /with\\040space rw,noexec - nfs4 server:/x rw\nno mount\n",
}  # fmt: skip
# Not the default socket: the SDK leaves a socket of its own open where that is missing, which is an error in tests.
NO_DOCKER = {"DOCKER_HOST": "tcp://127.0.0.1:1"}


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A directory that looks like the root of another machine."""
    for name, text in OTHER.items():
        place = tmp_path / "root" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return tmp_path / "root"


def programs(folder: Path, **scripts: str) -> dict[str, str]:
    """Return an environment that has these programs alone."""
    folder.mkdir()
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return {"PATH": str(folder), "HOME": str(folder), **NO_DOCKER}


def test_this_machine(tmp_path: Path) -> None:
    folders = default_directories(dict(os.environ), tmp_path / "store", tmp_path / "not" / "there")
    found = inspect_host({**os.environ, **NO_DOCKER}, folders)
    assert (found.system, found.machine, found.cpus) == (
        "Linux",
        os.uname().machine,
        len(os.sched_getaffinity(0)),
    )
    assert found.namespaces.complaint == ""  # the tests of the sandbox need them
    assert found.flags
    assert found.memory > 0
    assert found.glibc
    assert {*found.programs} <= {*PROGRAMS}
    assert {disk.role for disk in found.disks} >= {*folders}
    results = found.disk("results")
    assert results
    assert results.free > 0
    assert results.writable


def test_another_machine(other: Path, tmp_path: Path) -> None:
    env = programs(
        tmp_path / "bin", dnf="", sbatch="", git="", podman="echo 'cannot re-exec process' >&2; exit 125",
        apptainer="echo 1.3.4", mksquashfs="echo 'mksquashfs version 4.4 (2019)'; exit 1",
    )  # fmt: skip
    found = inspect_host({**env, "LMOD_CMD": "/x"}, {}, other)
    assert found.distribution == "Rocky Linux 9.4 (Blue Onyx)"
    assert (found.manager, found.modules, found.container, found.systemd) == ("dnf", True, True, False)
    assert (found.scheduler, found.cgroup, found.docker) == ("slurm", "2", "elsewhere")
    assert (found.memory, found.cpu) == (1 << 30, "made processor")
    assert found.programs == {"git"}
    assert {one.name: (one.version, one.complaint) for one in found.engines if one.name != "builtin"} == {
        "docker": ("", ""), "podman": ("", "cannot re-exec process"), "apptainer": ("1.3.4", ""),
    }  # fmt: skip
    old = programs(tmp_path / "old", singularity="echo 3.8.7")
    (apptainer,) = [one for one in inspect_host(old, {}, other).engines if one.name == "apptainer"]
    assert (apptainer.version, apptainer.program) == ("", f"{tmp_path}/old/singularity")
    assert apptainer.complaint.startswith("singularity 3.8.7 is too old")
    assert found.squashfs.startswith("`mksquashfs`")
    assert "`unshare` is not on PATH" not in found.namespaces.complaint  # the sandbox has a PATH of its own
    assert found.namespaces.settings == {"user.max_user_namespaces": "0"}
    assert (found.fabric.devices, found.fabric.nodes, found.fabric.interfaces) == (
        ("mlx5_0",),
        ("uverbs0",),
        ("ib0",),
    )
    assert (found.vendors, found.cdi, found.gpus.found) == (("nvidia",), True, ())
    assert found.subordinate is True


@pytest.mark.parametrize("before", ["cannot connect to", "x" * 280])  # the second is cut within the login
def test_an_error_of_docker_has_no_login(before: str, other: Path, tmp_path: Path) -> None:
    env = programs(tmp_path / "bin", docker=f'echo "{before} $DOCKER_HOST" >&2; exit 1')
    host = inspect_host({**env, "DOCKER_HOST": "tcp://ada:hunter2xQ81kd@127.0.0.1:1"}, {}, other)
    (docker,) = [engine for engine in host.engines if engine.name == "docker"]
    assert docker.complaint == f"{before} tcp://127.0.0.1:1"[:300]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"etc/subgid": "ada:1:2\n"}, False),
        ({"etc/nsswitch.conf": "passwd: files\nsubid: sss\n"}, None),
        ({"etc/nsswitch.conf": "subid: files\n"}, True),
    ],
)
def test_subordinate_ids(changes: dict[str, str], expected: bool | None, other: Path, tmp_path: Path) -> None:
    for name, text in changes.items():
        (other / name).write_text(text)
    assert inspect_host(programs(tmp_path / "bin"), {}, other).subordinate is expected


@pytest.mark.parametrize(
    ("folder", "expected"), [("sys/fs/cgroup/unified/cgroup.procs", "hybrid"), ("sys/fs/cgroup/memory/x", "1")]
)  # fmt: skip
def test_control_groups(folder: str, expected: str, other: Path, tmp_path: Path) -> None:
    (other / "sys/fs/cgroup/cgroup.controllers").unlink()
    (other / folder).parent.mkdir(parents=True)
    (other / folder).write_text("")
    assert inspect_host(programs(tmp_path / "bin"), {}, other).cgroup == expected


@pytest.mark.parametrize(("remote", "roles"), [("false", ["podman"]), ("true", [])])
def test_podman_tells_where_it_keeps_images(
    remote: str, roles: list[str], other: Path, tmp_path: Path
) -> None:
    place = tmp_path / "its own"
    says = f'case "$*" in *GraphRoot*) echo "{remote} {place}";; *) echo 4.9.3;; esac'
    found = inspect_host(programs(tmp_path / "bin", podman=says), {}, other)
    assert [(disk.role, disk.path) for disk in found.disks] == [(role, str(place)) for role in roles]


def test_a_daemon_elsewhere_tells_nothing_of_this_machine() -> None:
    assert engine_directories(["docker"], NO_DOCKER) == {}
    assert engine_directories(["docker"], {"DOCKER_HOST": "ssh://made.test"}) == {}


JOB = "system.slice/slurmstepd.scope/job_7/step_0"


@pytest.mark.parametrize(
    ("group", "limits", "expected"),
    [
        (f"0::/{JOB}\n", {f"{JOB}/memory.max": "805306368\n"}, 768 << 20),
        (f"0::/{JOB}\n", {"system.slice/memory.max": "536870912\n", f"{JOB}/memory.max": "max\n"}, 512 << 20),
        (f"1:name=x:/x\n9:cpu,memory:/{JOB}\n", {f"memory/{JOB}/memory.limit_in_bytes": "268435456\n"}, 256 << 20),
        ("7:memory:/\n", {"memory/memory.limit_in_bytes": "9223372036854771712\n"}, 1 << 30),
        ("0::/../../x\nno line\n9:memory\n", {"x/memory.max": "134217728\n"}, 128 << 20),
        ("0::/gone\n", {}, 1 << 30),
    ],
)  # fmt: skip
def test_the_memory_of_a_job(
    group: str, limits: dict[str, str], expected: int, other: Path, tmp_path: Path
) -> None:
    (other / "proc/self/cgroup").write_text(group)
    for name, text in limits.items():
        place = other / "sys/fs/cgroup" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    assert inspect_host(programs(tmp_path / "bin"), {}, other).memory == expected


@pytest.fixture
def noexec(tmp_path: Path) -> Iterator[Path]:
    """A file system that is mounted noexec and read-only, of which little is free."""
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,noexec,ro", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_disks(noexec: Path, other: Path) -> None:
    (found,) = inspect_disks({"store": noexec / "below" / "it"}, Path("/"))
    assert (found.kind, found.noexec, found.readonly) == ("tmpfs", True, True)
    assert found.free <= 4 << 20
    (root,) = inspect_disks({"temporary": Path("/")}, other)
    assert root.kind == "ext4"
    assert inspect_disks({"temporary": Path("/")}, other / "empty")[0].kind == ""
