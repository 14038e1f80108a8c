"""The table of what is the host's: against its page, against names, against real lists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reprobuild.ecosystems.apt.index import SystemIndex
from reprobuild.resolve.system.system_rules import find_exclusion, read_system_rules
from reprobuild.store.store import Store
from reprobuild.verify.roundtrip.compare import compare_captured
from tests.system.samples import package, stanza
from tests.system.test_system import outcome, resolve
from tests.verify.samples import make_lock, ruling

PAGE = Path(__file__).parents[2] / "docs" / "system.md"
FOUND_OUT = ("not-needed", "other-architecture", "residual", "decision", "local-build", "unknown-package")


def test_the_page_has_every_class_and_no_other() -> None:
    listed = re.findall(r"^\| `([a-z-]+)` \|", PAGE.read_text(), re.MULTILINE)
    assert set(listed) == {*(rule.class_ for _, rule in read_system_rules()), *FOUND_OUT}
    assert len(listed) == len(set(listed))
    assert tuple(listed[-len(FOUND_OUT) :]) == FOUND_OUT


@pytest.mark.parametrize(
    "kind", sorted({rule.class_ for _, rule in read_system_rules()} | set(FOUND_OUT[:4]))
)
def test_every_class_is_explained_in_a_round_trip(kind: str) -> None:
    lock = make_lock(rulings=(ruling("x", "", outcome="excluded", kind=kind),))
    (difference,) = compare_captured(lock)
    assert difference.code in ("host-only", "base-provided", "not-needed", "decision")


def test_every_pattern_is_plain_and_stands_once() -> None:
    patterns = [pattern for _, rule in read_system_rules() for pattern in rule.packages]
    assert all(re.fullmatch(r"[a-z0-9*][a-z0-9+.*-]+", pattern) for pattern in patterns)
    assert len(patterns) == len(set(patterns))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("linux-image-6.1.0-18-amd64", "kernel"), ("linux-firmware", "kernel"), ("grub-efi-amd64", "kernel"),
        ("lvm2", "kernel"), ("libnvidia-compute-535", "driver"), ("nvidia-driver-535-server", "driver"),
        ("nvidia-open", "driver"), ("libcuda1", "driver"), ("amdgpu-dkms", "driver"),
        ("mlnx-ofed-kernel-dkms", "host-fabric"), ("nvidia-fabricmanager-535", "host-fabric"),
        ("lustre-client-modules-dkms", "host-fabric"), ("slurmd", "host-scheduler"),
        ("munge", "host-scheduler"), ("lmod", "host-scheduler"), ("docker-ce-cli", "container"),
        ("apptainer", "container"), ("libnvidia-container1", "container"), ("systemd-timesyncd", "init"),
        ("cloud-init", "provisioning"), ("openssh-server", "daemon"), ("cron", "daemon"), ("postfix", "daemon"),
        ("xserver-xorg-core", "desktop"), ("ubuntu-desktop-minimal", "desktop"), ("ubuntu-server", "base"),
        ("usrmerge", "base"),
    ],
)  # fmt: skip
def test_the_hosts_packages_have_their_class(name: str, kind: str) -> None:
    rule = find_exclusion(name)
    assert rule is not None
    assert rule.class_ == kind


@pytest.mark.parametrize(
    "name",
    [
        "gcc", "git", "nvidia-cuda-toolkit", "libopenmpi-dev", "python3-numpy", "linux-libc-dev",
        "nvidia-opencl-dev", "libnvidia-ml-dev", "cuda-compat-12-8", "libcudnn9-cuda-12", "libnccl2",
        "rdma-core", "libibverbs1", "ibverbs-providers", "librdmacm1", "libucx0", "libfabric1", "libpmix2",
        "libmunge2", "libslurm-dev", "openssh-client", "xvfb", "libgl1", "libx11-6", "fonts-dejavu", "dbus",
        "fuse", "sudo", "libsystemd0", "libudev1", "ffmpeg", "libpulse0", "libcups2", "libavahi-client3",
        "libzfs4linux", "libparted2", "libblkid1", "ubuntu-keyring", "ubuntu-dev-tools", "rocm-hip-runtime",
        "intel-opencl-icd", "libdrm-amdgpu1", "libfuse3-3", "chromium", "parallel", "python3-systemd",
        "libpolkit-gobject-1-0", "kmodpy", "cronutils", "tailscale-archive-keyring", "libnvidia-egl-wayland1",
        "gridengine-drmaa1.0", "kubectl", "libreoffice-core",
    ],
)  # fmt: skip
def test_the_environments_packages_are_kept(name: str) -> None:
    assert find_exclusion(name) is None


def test_no_rule_means_a_library_of_debian(bookworm: SystemIndex, store: Store) -> None:
    """Of all libraries and headers of a release, only systemd's for PAM and NSS are left out, and programs."""
    lists = (store.root / "apt/bookworm-amd64/state/lists").glob("*_Packages")
    names = {
        name for path in lists for name in re.findall(r"^Package: (\S+)$", path.read_text(), re.MULTILINE)
    }
    assert len(names) > 60_000
    assert all(bookworm.versions(name) for name in sorted(names)[:10])
    kept = {name for name in names if find_exclusion(name) is None}
    assert {name for name in names - kept if re.match("lib|python3-|fonts-|.*-dev$", name)} == {
        "libnss-systemd", "libpam-systemd", "libpmix-bin",
    }  # fmt: skip


def test_what_is_needed_is_taken_though_a_rule_would_leave_it_out() -> None:
    found, rulings = resolve(
        [package("tool", "1", "manual"), package("kmod", "1", "manual")],
        stanza("tool", "1", "kmod"), stanza("kmod", "1"),
    )  # fmt: skip
    assert found["kmod"] == "1"
    assert outcome(rulings["kmod"]) == ("pinned", "")
