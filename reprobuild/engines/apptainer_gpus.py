"""GPUs in containers of Apptainer: options, variables and a check.

https://apptainer.org/docs/user/latest/gpu.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from reprobuild.engines import gpu
from reprobuild.errors import EngineError
from reprobuild.infra.proc import stream

LOOK_SECONDS = 60
# The GPUs of a job on a shared node: https://slurm.schedmd.com/gres.html#GPU_Management
_OF_THE_JOB = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", gpu.AMD_VISIBLE, "HIP_VISIBLE_DEVICES")
_NOTHING = 9
_LOOK = {
    gpu.NVIDIA: "for node in /dev/nvidia[0-9]* /dev/dxg /.singularity.d/libs/libcuda.so*; do "
    f'if [ -e "$node" ]; then exit 0; fi; done; exit {_NOTHING}',
    gpu.AMD: f"if [ -e /dev/kfd ]; then exit 0; fi; exit {_NOTHING}",
}


def gpu_options(gpus: str) -> list[str]:
    """Return the options of `apptainer run` and `exec` for GPUs.

    They are chosen by `Task.gpus`.
    """
    return ["--rocm" if gpu.vendor(gpus) == gpu.AMD else "--nv"] if gpus else []


def visible_gpu_variables(gpus: str, env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that select a container's visible GPUs.

    They are those of the task, else those of the caller's job. Indices are in the order of the bus, as in the
    other engines, and not of speed, which is CUDA's default.

    https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#cuda-environment-variables
    """
    if not gpus:
        return {}
    ids = ",".join(gpu.gpu_ids(gpus))
    if ids and gpu.vendor(gpus) == gpu.AMD:
        return {gpu.AMD_VISIBLE: ids}
    if ids:
        return {"CUDA_VISIBLE_DEVICES": ids, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    return {name: env[name] for name in _OF_THE_JOB if name in env}


def check_gpus(command: Sequence[str], image: Path, gpus: str, env: Mapping[str, str]) -> None:
    """Check that a container has GPU nodes or drivers.

    The check uses a shell. Apptainer itself continues without them.

    Args:
        command: the start of a container command, up to its options.
        env: the environment of the program.

    Raises:
        EngineError: there are none.
    """
    if gpu.uses_cdi(gpus):
        raise EngineError(
            f"Apptainer knows no GPU by a name of CDI: {gpus}",
            hint="name it by its index or UUID, or give all with --gpu all",
        )
    output: list[bytes] = []
    vendor = gpu.vendor(gpus)
    code = stream(
        [*command, *gpu_options(gpus), str(image), "/bin/sh", "-c", _LOOK[vendor]],
        sink=lambda _, data: output.append(data), env=env, purpose="look for the GPU in a container",
        timeout=LOOK_SECONDS,
    )  # fmt: skip
    if code == _NOTHING:
        raise EngineError(
            "Apptainer brings no GPU into the container: it has no node of "
            f"{vendor.upper()}'s{_describe_warning(b''.join(output))}",
            hint="the driver's nodes must be in /dev, and its libraries known to `ldconfig -p`: does `nvidia-smi` or "
            f"`rocminfo` answer on this machine? Install the driver, {gpu.WITHOUT}",
        )


def _describe_warning(output: bytes) -> str:
    """Return Apptainer's warning, such as "While finding nv bind points: ..."."""
    lines = [line.partition(":") for line in output.decode(errors="replace").splitlines()]
    warnings = [rest.strip() for _, _, rest in lines if "bind points" in rest or "Could not find any" in rest]
    return f"; {warnings[0]}" if warnings else ""
