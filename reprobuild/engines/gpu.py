"""GPUs: what a user asks for, whether this machine has any, and what engines say where they cannot give one.

Nothing here starts a program or changes a setting: what is there is read from device nodes and from /proc and
/sys. Whether a container really has the GPU is asked inside it.

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
# Which GPUs a process of ROCm sees, by index or UUID: https://rocm.docs.amd.com/en/latest/conceptual/gpu-isolation.html
AMD_VISIBLE = "ROCR_VISIBLE_DEVICES"
# An index, "GPU-UUID", "MIG-UUID", "0:1" (a part of a GPU), or a name of CDI ("vendor.com/class=name").
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*(/[A-Za-z0-9._-]+=[A-Za-z0-9._:-]+)?")
NO_DRIVER = "could not select device driver"  # Docker, which then may still know the GPU by CDI
WITHOUT = "or leave the GPU out with --gpu none"
_CDI = (
    "install the NVIDIA Container Toolkit, which describes the GPUs to engines: "
    f"`nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`; {WITHOUT}"
)
# What engines say, and what helps.
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
MACHINE = Path("/")  # where /dev, /proc and /sys are


def vendors(root: Path | None = None) -> tuple[str, ...]:
    """Return whose GPUs this machine has: "nvidia", "amd", both in this order, or none.

    Args:
        root: the folder that holds dev, proc and sys; else that of this machine.
    """
    root = root or MACHINE
    return tuple(name for name, there in ((NVIDIA, _has_nvidia(root)), (AMD, _has_amd(root))) if there)


def present(root: Path | None = None) -> bool:
    """Return whether this machine has a GPU that engines may give to containers."""
    return bool(vendors(root))


def _has_nvidia(root: Path) -> bool:
    """Look for nodes of GPUs, for those that the driver knows (whose nodes may not be made yet), and for WSL's."""
    nodes = (*root.glob("dev/nvidia[0-9]*"), *root.glob("proc/driver/nvidia/gpus/*"))
    wsl = (root / "dev/dxg").exists() and any(root.glob("usr/lib/wsl/lib/libcuda.so*"))
    return bool(nodes) or wsl


def _has_amd(root: Path) -> bool:
    """Look for the node of the compute driver, and for a GPU that it knows: a CPU is one of its nodes, too.

    https://docs.kernel.org/gpu/amdgpu/driver-core.html (KFD); `gpu_id` is 0 for a CPU.
    """
    if not (root / "dev/kfd").exists():
        return False
    ids = list(root.glob("sys/class/kfd/kfd/topology/nodes/*/gpu_id"))
    if not ids:  # hidden, as in some containers
        return any(root.glob("dev/dri/renderD*"))
    found = []
    for path in ids:
        with contextlib.suppress(OSError):
            found.append(path.read_text().strip())
    return any(text not in ("", "0") for text in found)


def amd_devices() -> dict[str, str]:
    """Return {node of this machine: node in a container} of AMD's compute driver and its GPUs."""
    nodes = (MACHINE / "dev/kfd", MACHINE / "dev/dri")
    return {str(path): f"/{path.relative_to(MACHINE)}" for path in nodes}


def amd_groups() -> tuple[str, ...]:
    """Return the numbers of the groups that own those nodes, which are `video` and `render` by name.

    Numbers, since an image may know no group of these names, or others under them.
    """
    found = set()
    for path in (MACHINE / "dev/kfd", *MACHINE.glob("dev/dri/*")):
        with contextlib.suppress(OSError):
            found.add(path.stat().st_gid)
    return tuple(str(number) for number in sorted(found - {0}))


def requested(option: str, root: Path | None = None) -> str:
    """Return the `Task.gpus` that `--gpu auto|all|none|ID[,ID...]` means on this machine.

    Raises:
        UsageError: it is none of them.
    """
    if option == "none" or (option == "auto" and not present(root)):
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


def ids(gpus: str) -> tuple[str, ...]:
    """Return the ids in `Task.gpus`; none of them means all."""
    return () if gpus == ALL else tuple(gpus.split(","))


def cdi_names(gpus: str) -> tuple[str, ...]:
    """Return the names by which CDI knows the GPUs of `Task.gpus`; a name of CDI stays as it is."""
    kind = f"{NVIDIA}.com/gpu"
    return tuple(name if "=" in name else f"{kind}={name}" for name in ids(gpus) or (ALL,))


def by_cdi(gpus: str) -> bool:
    """Return whether `Task.gpus` itself speaks of CDI."""
    return "=" in gpus


def vendor(gpus: str) -> str:
    """Return whose GPUs `Task.gpus` means here: AMD's where the machine has no others, else NVIDIA's.

    Without any it is NVIDIA's, too: the engine then says what is missing.
    """
    return AMD if vendors() == (AMD,) and not by_cdi(gpus) else NVIDIA


def remedy(said: str) -> str:
    """Return what helps where an engine said this of a GPU, or nothing."""
    return next((hint for words, hint in REMEDIES if words in said), "")


def refusal(what: str, said: str, hint: str) -> EngineError:
    """Return the error of an engine: with what helps where it speaks of a GPU, else with `hint`."""
    return EngineError(what, hint=remedy(said) or hint)
