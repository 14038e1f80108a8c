"""GPUs: the user's request, this machine's devices, and engines' errors.

This module starts no program and changes no setting: devices are read from device nodes and from /proc and
/sys. A check inside the container finds out if it really has the GPU.

https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/cdi-support.html
https://rocm.docs.amd.com/projects/install-on-linux/en/latest/how-to/docker.html
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from reprobuild.errors import EngineError, UsageError

ALL = "all"
NVIDIA, AMD = "nvidia", "amd"
# The visible GPUs of a ROCm process, by index or UUID:
# https://rocm.docs.amd.com/en/latest/conceptual/gpu-isolation.html
AMD_VISIBLE = "ROCR_VISIBLE_DEVICES"
# An index, "GPU-UUID", "MIG-UUID", "0:1" (a part of a GPU), or a name of CDI ("vendor.com/class=name").
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*(/[A-Za-z0-9._-]+=[A-Za-z0-9._:-]+)?")
NO_DRIVER = "could not select device driver"  # Docker's error; it may then still know the GPU by CDI
WITHOUT = "or leave the GPU out with --gpu none"
_CDI = (
    "install the NVIDIA Container Toolkit, which describes the GPUs to engines: "
    f"`nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`; {WITHOUT}"
)
# Errors of engines, and their remedies.
REMEDIES: tuple[tuple[str, str], ...] = (
    (
        NO_DRIVER,
        "install the NVIDIA Container Toolkit, run `nvidia-ctk runtime configure --runtime=docker` and start "
        f"Docker again; {WITHOUT}",
    ),
    ("unresolvable CDI devices", _CDI),
    (
        "nvidia-container-cli",
        "the NVIDIA Container Toolkit is there and cannot use the driver: does `nvidia-smi` answer on this machine? "
        f"Install a driver that fits its kernel and GPU, {WITHOUT}",
    ),
    (
        "/dev/kfd",
        f"load the driver of AMD's GPUs (amdgpu), and see that this user may open /dev/kfd; {WITHOUT}",
    ),
    ("/dev/dri", f"load the driver of AMD's GPUs (amdgpu), which makes /dev/dri; {WITHOUT}"),
)
MACHINE = Path("/")  # the parent of /dev, /proc and /sys


def find_vendors(root: Path | None = None) -> tuple[str, ...]:
    """Return the vendors of this machine's GPUs.

    The result is a tuple of "nvidia" and "amd", in this order; it may be empty.

    Args:
        root: the directory that holds dev, proc and sys; else that of this machine.
    """
    root = root or MACHINE
    return tuple(name for name, has_gpu in ((NVIDIA, _has_nvidia(root)), (AMD, _has_amd(root))) if has_gpu)


def has_any_gpu(root: Path | None = None) -> bool:
    """Return whether this machine has a GPU for containers."""
    return bool(find_vendors(root))


def _has_nvidia(root: Path) -> bool:
    """Return whether the machine has NVIDIA GPUs.

    It looks for device nodes, for GPUs that the driver knows (their nodes may not be made yet), and for WSL's
    device.
    """
    nodes = (*root.glob("dev/nvidia[0-9]*"), *root.glob("proc/driver/nvidia/gpus/*"))
    wsl = (root / "dev/dxg").exists() and any(root.glob("usr/lib/wsl/lib/libcuda.so*"))
    return bool(nodes) or wsl


def _has_amd(root: Path) -> bool:
    """Return whether the compute driver knows an AMD GPU.

    A CPU is one of its nodes, too. https://docs.kernel.org/gpu/amdgpu/driver-core.html (KFD); `gpu_id` is 0
    for a CPU.
    """
    if not (root / "dev/kfd").exists():
        return False
    ids = list(root.glob("sys/class/kfd/kfd/topology/nodes/*/gpu_id"))
    if not ids:  # hidden, as in some containers
        return any(root.glob("dev/dri/renderD*"))
    contents = []
    for path in ids:
        with contextlib.suppress(OSError):
            contents.append(path.read_text().strip())
    return any(text not in ("", "0") for text in contents)


def amd_devices() -> dict[str, str]:
    """Return {host node: container node} of AMD's driver and GPUs."""
    nodes = (MACHINE / "dev/kfd", MACHINE / "dev/dri")
    return {str(path): f"/{path.relative_to(MACHINE)}" for path in nodes}


def amd_groups() -> tuple[str, ...]:
    """Return the group numbers of AMD's nodes, without root's.

    By name these are `video` and `render`. Numbers are used, since an image may lack these groups, or have
    other numbers for them.
    """
    groups = set()
    for path in (MACHINE / "dev/kfd", *MACHINE.glob("dev/dri/*")):
        with contextlib.suppress(OSError):
            groups.add(path.stat().st_gid)
    return tuple(str(number) for number in sorted(groups - {0}))


def parse_gpu_option(option: str, root: Path | None = None) -> str:
    """Return the `Task.gpus` for the option `--gpu`.

    Its value is `auto|all|none|ID[,ID...]`, for this machine.

    Raises:
        UsageError: the value is not one of these.
    """
    if option == "none" or (option == "auto" and not has_any_gpu(root)):
        return ""
    if option in ("auto", ALL):
        return ALL
    names = [name.strip() for name in option.split(",")]
    for name in names:
        if not _ID.fullmatch(name) or name in ("auto", ALL, "none"):
            raise UsageError(
                f"--gpu {option!r}: {name!r} is no GPU",
                hint="auto, all, none, or ids separated by commas: 0 or 0,1, GPU-UUID, MIG-UUID, nvidia.com/gpu=0",
            )
    return ",".join(names)


def gpu_ids(gpus: str) -> tuple[str, ...]:
    """Return the ids in `Task.gpus`, empty for all."""
    return () if gpus == ALL else tuple(gpus.split(","))


def cdi_names(gpus: str) -> tuple[str, ...]:
    """Return the CDI names of the GPUs of `Task.gpus`.

    A name of CDI stays as it is.
    """
    kind = f"{NVIDIA}.com/gpu"
    return tuple(name if "=" in name else f"{kind}={name}" for name in gpu_ids(gpus) or (ALL,))


def uses_cdi(gpus: str) -> bool:
    """Return whether `Task.gpus` contains a CDI name."""
    return "=" in gpus


def vendor(gpus: str) -> str:
    """Return the vendor of the GPUs of `Task.gpus`.

    It is AMD if the machine has only AMD's, else NVIDIA. Without GPUs it is NVIDIA, too: the engine then
    reports the missing part.
    """
    return AMD if find_vendors() == (AMD,) and not uses_cdi(gpus) else NVIDIA


def find_remedy(stderr: str) -> str:
    """Return the remedy for an engine's GPU error, or ""."""
    return next((hint for words, hint in REMEDIES if words in stderr), "")


def _lacks_gpu() -> bool:
    return not has_any_gpu()


def gpu_error(message: str, stderr: str, hint: str) -> EngineError:
    """Return an engine's error, with a GPU remedy or `hint`.

    Without a GPU on this machine, it begins with that, and the first remedy is to do without.
    """
    remedy = find_remedy(stderr)
    if remedy and _lacks_gpu():
        return EngineError(
            f"this machine has no GPU: {message}",
            hint=f"run without a GPU: --gpu none; if it has one, {remedy}",
        )
    return EngineError(message, hint=remedy or hint)
