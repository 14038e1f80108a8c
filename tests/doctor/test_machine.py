"""`doctor` alone: machines that do not exist are judged, each with what it lacks and what mends that."""

from __future__ import annotations

from typing import Any

import pytest

from reprobuild.doctor.diagnose import diagnose
from reprobuild.doctor.fixes import describe_installation, list_managers
from reprobuild.doctor.model import PROGRAMS, EngineFound, Fabric, Host, Namespaces
from reprobuild.doctor.text import render_diagnosis
from tests.doctor.hosts import A100, APPTAINER, DOCKER, GB, PODMAN, WELL, disks, host, states, told, without

BUILTIN = (EngineFound(name="builtin", version="0.1.0"),)


def judged(of: Host) -> Any:
    return diagnose(of).findings


def test_all_is_well() -> None:
    found = diagnose(WELL)
    assert states(found.findings) == {}
    assert (found.state, found.exit_code) == ("ok", 0)
    assert all(not finding.fix and not finding.meaning for finding in found.findings)
    assert render_diagnosis(found, "this machine").endswith("\nthis machine: it is ready (14 ok)")


@pytest.mark.parametrize(
    ("facts", "name", "state", "seen", "fix"),
    [
        ({"system": "Darwin"}, "system", "problem", "Debian", "use a Linux machine"),
        ({"programs": without("unshare")}, "sandbox", "problem", "not on PATH: unshare",
         "`sudo apt-get install util-linux mount`"),
        ({"programs": without("hostname", "sh"), "root": True, "manager": "pacman"}, "sandbox", "problem",
         "not on PATH: hostname, sh", "`pacman -S inetutils`; `pacman -S coreutils`"),
        ({"namespaces": Namespaces(complaint="no", settings={"kernel.unprivileged_userns_clone": "0"})}, "sandbox",
         "problem", "no", "`sudo sysctl -w kernel.unprivileged_userns_clone=1`; a file in /etc/sysctl.d keeps it"),
        ({"namespaces": Namespaces(complaint="no", settings={
            "kernel.unprivileged_userns_clone": "1", "kernel.apparmor_restrict_unprivileged_userns": "1",
            "user.max_user_namespaces": "0"}), "root": True}, "sandbox", "problem", "no",
         "`sysctl -w kernel.apparmor_restrict_unprivileged_userns=0` and "
         "`sysctl -w user.max_user_namespaces=15000`"),
        ({"namespaces": Namespaces(complaint="no"), "container": True}, "sandbox", "problem", "no",
         "start this container with `--security-opt seccomp=unconfined"),
        ({"namespaces": Namespaces(complaint="no")}, "sandbox", "problem", "no",
         "no setting of the kernel forbids it: ask"),
        ({"namespaces": Namespaces(overlay=False)}, "sandbox", "warning", "no overlay mounted", "a kernel from 5.11"),
        ({"programs": without("apt-get"), "manager": "dnf"}, "apt", "warning", "there is no apt-get",
         "lock on a Debian or Ubuntu machine"),
        ({"programs": without("git"), "manager": "zypper"}, "git", "warning", "there is no git",
         "`sudo zypper install git`"),
        ({"squashfs": "", "manager": "apk"}, "squashfs", "warning", "there is no mksquashfs",
         "`sudo apk add squashfs-tools` (4.5 or newer)"),
        ({"squashfs": "`mksquashfs` is 4.4, and cannot read a tar", "engines": (APPTAINER,)}, "squashfs", "problem",
         "is 4.4", "(4.5 or newer)"),
        ({"disks": disks("store", free=GB)}, "disk: store", "problem", "/made/store (ext4) has room for 1.0 GB",
         "make room (`reprobuild store gc` cleans the store), or name another directory with --store"),
        ({"disks": disks("store")[:3]}, "disk: podman", "unknown", "the drive is unknown", "`podman info`"),
        ({"disks": disks("podman", free=10 * GB)}, "disk: podman", "warning", "has room for 10.0 GB",
         "see the settings of podman"),
        ({"disks": disks("results", writable=False)}, "disk: results", "problem", "is not yours to write to",
         "name another directory with --out"),
        ({"disks": disks("temporary", readonly=True)}, "disk: temporary", "problem", "is mounted read-only",
         "name another directory with TMPDIR"),
        ({"disks": disks("builtin", free=GB), "engines": BUILTIN}, "disk: builtin", "problem", "has room for 1.0 GB",
         "delete /made/builtin (the next run makes its image again), or name another directory with XDG_CACHE_HOME"),
        ({"disks": disks("builtin", readonly=True), "engines": BUILTIN}, "disk: builtin", "problem",
         "is mounted read-only", "name another directory with XDG_CACHE_HOME"),
        ({"disks": disks("apptainer", writable=False), "engines": (APPTAINER,)}, "disk: apptainer", "problem",
         "is not yours to write to", "name another directory with XDG_CACHE_HOME"),
        ({"disks": disks("store")[:3], "engines": BUILTIN}, "disk: builtin", "unknown", "the drive is unknown",
         "name a directory that is there with XDG_CACHE_HOME"),
        ({"disks": disks("temporary", noexec=True)}, "disk: temporary", "warning", "is mounted noexec", "TMPDIR"),
        ({"disks": disks("store", noexec=True)}, "disk: store", "problem", "is mounted noexec", "--store"),
        ({"disks": disks("podman", kind="nfs4")}, "disk: podman", "warning",
         "podman keeps images on /made/podman (nfs4)", "set `graphroot`"),
        ({"memory": 1 << 30}, "memory", "warning", "16 processors, 1 GB of memory", "2 GB or more"),
        ({"cgroup": "1"}, "control groups", "warning", "version 1", "systemd.unified_cgroup_hierarchy=1"),
        ({"cgroup": ""}, "control groups", "warning", "there are none", "systemd.unified_cgroup_hierarchy=1"),
        ({"cgroup": "1", "systemd": False}, "control groups", "warning", "version 1", "`cgroup_no_v1=all`"),
        ({"cgroup": "1", "container": True}, "control groups", "warning", "version 1",
         "if you need limits, change the machine below this container: no command in it can"),
        ({"programs": without("git", "sudo")}, "git", "warning", "there is no git", "`su -c 'apt-get install git'`"),
        ({"programs": without("git", "sudo", "su")}, "git", "warning", "there is no git", "`apt-get install git`"),
        ({"cgroup": "hybrid", "programs": without("runc"), "manager": "dnf"}, "control groups", "warning", "hybrid",
         '`sudo dnf install runc`, and write `runtime = "runc"`'),
        ({"fabric": Fabric(devices=("mlx5_0",))}, "fabric", "warning", "mlx5_0, and no /dev/infiniband/uverbs*",
         "`sudo modprobe ib_uverbs`"),
        ({"fabric": Fabric(devices=("mlx5_0",), nodes=("uverbs0",), locked=64 << 10)}, "fabric", "warning",
         "64 KiB of memory may be locked", "PropagateResourceLimitsExcept=MEMLOCK"),
    ],
)  # fmt: skip
def test_what_a_machine_lacks(facts: dict[str, Any], name: str, state: str, seen: str, fix: str) -> None:
    findings = judged(host(**facts))
    assert states(findings) == {name: state}
    finding = told(findings, name)
    assert seen in finding.seen
    assert fix in finding.fix
    assert finding.meaning


@pytest.mark.parametrize(
    ("facts", "expected", "fix"),
    [
        ({"engines": ()}, {"engine": "problem"}, "`sudo apt-get install podman`"),
        ({"engines": (EngineFound(name="builtin", complaint="covered"), PODMAN)}, {"builtin": "warning"},
         "--security-opt systempaths=unconfined"),
        ({"engines": (EngineFound(name="builtin", complaint="covered"),)}, {"builtin": "problem", "engine": "problem"},
         "--security-opt systempaths=unconfined"),
        ({"engines": (), "manager": "", "modules": True}, {"engine": "problem"},
         "`module load apptainer` (`module spider apptainer` tells whether it is there); else install apptainer as "
         "https://apptainer.org/docs/admin/latest/installation.html describes"),
        ({"engines": (), "manager": "apt", "scheduler": "slurm"}, {"engine": "problem"}, "install apptainer as https://"),
        ({"engines": (), "manager": "brew"}, {"engine": "problem"}, "`brew install podman`"),
        ({"engines": (EngineFound(name="docker", program="/usr/bin/docker"),)},
         {"docker": "problem", "engine": "problem"}, "`sudo systemctl enable --now docker`"),
        ({"engines": (EngineFound(name="docker", program="/usr/bin/docker"),), "systemd": False, "root": True},
         {"docker": "problem", "engine": "problem"}, "`service docker start`"),
        ({"engines": (EngineFound(name="docker", program="/usr/bin/docker"),), "systemd": False, "root": True,
          "programs": without("service")}, {"docker": "problem", "engine": "problem"}, "`dockerd`"),
        ({"engines": (EngineFound(name="docker", program="/usr/bin/docker"),), "systemd": False, "root": True,
          "programs": without("dockerd")}, {"docker": "problem", "engine": "problem"}, "`apt-get install podman`"),
        ({"engines": (EngineFound(name="docker"),), "docker": "refused"}, {"docker": "problem", "engine": "problem"},
         "`sudo usermod -aG docker ada`, then log in again"),
        ({"engines": (EngineFound(name="docker"), PODMAN), "docker": "elsewhere"}, {"docker": "warning"},
         "mend DOCKER_HOST, or unset it"),
        ({"engines": (EngineFound(name="podman", program="/usr/bin/podman", complaint="cannot clone"),)},
         {"podman": "problem", "engine": "problem"}, "`podman info` says more"),
        ({"engines": (EngineFound(name="podman", program="/usr/bin/podman"),), "subordinate": False},
         {"podman": "problem", "engine": "problem"}, "usermod --add-subuids 100000-165535"),
        ({"engines": (EngineFound(name="apptainer", program="/usr/bin/singularity", complaint="2.6"), DOCKER)},
         {"apptainer": "warning"}, " describes (Apptainer 1.1, or SingularityCE 3.10, or newer)"),
        ({"subordinate": False}, {"subordinate ids": "problem"},
         "`sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 ada`"),
        ({"subordinate": False, "engines": (DOCKER, PODMAN)}, {"subordinate ids": "warning"}, "podman system migrate"),
        ({"programs": without("newuidmap"), "manager": "apk"}, {"subordinate ids": "problem"},
         "`sudo apk add shadow-subids`, then `podman system migrate`"),
        ({"subordinate": None}, {"subordinate ids": "unknown"}, "podman unshare cat /proc/self/uid_map"),
        ({"subordinate": False, "root": True}, {}, ""),
    ],
)  # fmt: skip
def test_engines(facts: dict[str, Any], expected: dict[str, str], fix: str) -> None:
    findings = judged(host(**facts))
    assert states(findings) == expected
    assert fix in " ".join(finding.fix for finding in findings)


@pytest.mark.parametrize(
    ("facts", "expected", "fix"),
    [
        ({"vendors": ("amd",)}, {}, ""),
        ({"vendors": ("nvidia",), "gpus": A100, "cdi": True}, {}, ""),
        ({"vendors": ("nvidia",)}, {"gpu": "warning"}, "`sudo modprobe nvidia`"),
        ({"vendors": ("nvidia",), "gpus": A100, "engines": (EngineFound(name="builtin", version="1"),)},
         {"gpu in containers": "warning"}, "`sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`"),
        ({"vendors": ("nvidia",), "gpus": A100}, {"gpu in containers": "warning"},
         "`sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`"),
        ({"vendors": ("nvidia",), "gpus": A100, "programs": without("nvidia-ctk"), "engines": (DOCKER,)},
         {"gpu in containers": "warning"},
         "`sudo apt-get install nvidia-container-toolkit`, then `sudo nvidia-ctk runtime configure --runtime=docker`, "
         "`sudo systemctl restart docker`"),
        ({"vendors": ("nvidia",), "gpus": A100, "programs": without("nvidia-ctk"), "engines": (DOCKER,),
          "systemd": False, "root": True}, {"gpu in containers": "warning"}, "`service docker restart`"),
        ({"vendors": ("nvidia",), "gpus": A100, "programs": without("nvidia-ctk"), "engines": (APPTAINER,)}, {}, ""),
    ],
)  # fmt: skip
def test_gpus(facts: dict[str, Any], expected: dict[str, str], fix: str) -> None:
    findings = judged(host(**facts))
    assert states(findings) == expected
    assert fix in " ".join(finding.fix for finding in findings)


def test_the_exit_code_is_of_the_gravest() -> None:
    assert diagnose(host(cgroup="1")).exit_code == 0
    assert diagnose(host(subordinate=None)).exit_code == 9
    assert diagnose(host(subordinate=None, system="Darwin")).exit_code == 6


@pytest.mark.parametrize("manager", [*list_managers(), ""])
def test_every_package_has_a_remedy_everywhere(manager: str) -> None:
    names = ("podman", "docker", "apptainer", "util-linux", "git", "squashfs-tools", "newuidmap", "runc")
    for name in names:
        fix = describe_installation(name, host(manager=manager))
        assert fix.startswith(("`sudo ", "`brew ", f"install {name}"))
        assert "  " not in fix


def test_what_is_looked_for_is_judged() -> None:
    """No program is looked for in vain: without it, some finding differs."""
    gpu = {"vendors": ("nvidia",), "gpus": A100, "cgroup": "hybrid", "cdi": True}
    client = {"systemd": False, "engines": (EngineFound(name="docker", program="/usr/bin/docker"),)}
    unused = [
        name
        for name in PROGRAMS
        if all(judged(host(**kind)) == judged(host(**kind, programs=without(name))) for kind in (gpu, client))
        and judged(host(programs=without("git", "sudo")))
        == judged(host(programs=without("git", "sudo", name)))
    ]
    assert unused == []


def test_text_is_wrapped_and_harmless() -> None:
    evil = EngineFound(name="podman", program="/usr/bin/podman", complaint="\x1b[2J bad " * 9)
    text = render_diagnosis(diagnose(host(engines=(evil,))), "this machine", 70)
    assert "\x1b" not in text
    assert max(len(line) for line in text.splitlines()[:-1] if "https://" not in line) <= 70
    assert text.endswith("this machine: it is not ready (2 problems, 12 ok)")
