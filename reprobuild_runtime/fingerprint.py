"""The fingerprint of a platform: results may depend on it.

Digests are comparable only between equal fingerprints.

It does not identify a machine: it has no host name, no address, no serial number or UUID, and of the environment only
the variables that libraries for computing read, without paths and without the seed.
"""

# ruff: noqa: TID251  the environment is a part of it

import os
import platform
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional

# Variables that libraries read, except those that may be secret or name a machine or a device.
_VARIABLES = re.compile(
    r"(OMP|GOMP|KMP|MKL|OPENBLAS|BLIS|ONEDNN|DNNL|ATEN|NCCL|RCCL|GLOO|CUDA|CUDNN|CUBLAS|CUBLASLT|NVTE|NVIDIA_TF32"
    r"|PYTORCH|TORCH|TORCHINDUCTOR|TRITON|FLASH_ATTENTION|MAMBA|CAUSAL_CONV1D|VLLM|XLA|TF_CUDNN|TF_USE|TF_DETERMINISTIC|TF_ENABLE|JAX|HIP|ROCM|HSA|MIOPEN"
    r"|HCCL|ASCEND)_\w+|REPROBUILD_PROFILE"
)
_SECRET = re.compile(r"TOKEN|SECRET|PASSW|KEY|CREDENTIAL|AUTH|HOST|ADDR|UUID|VISIBLE", re.IGNORECASE)
_FLAGS: "Dict[str, Callable[[Any], Any]]" = {
    "deterministic_algorithms": lambda torch: torch.are_deterministic_algorithms_enabled(),
    "warn_only": lambda torch: torch.is_deterministic_algorithms_warn_only_enabled(),
    "fill_uninitialized_memory": lambda torch: torch.utils.deterministic.fill_uninitialized_memory,
    "cudnn_deterministic": lambda torch: torch.backends.cudnn.deterministic,
    "cudnn_benchmark": lambda torch: torch.backends.cudnn.benchmark,
    "cudnn_tf32": lambda torch: torch.backends.cudnn.allow_tf32,
    "matmul_tf32": lambda torch: torch.backends.cuda.matmul.allow_tf32,
    "matmul_precision": lambda torch: torch.get_float32_matmul_precision(),
    "fp16_reduced_precision": lambda torch: torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction,
    "bf16_reduced_precision": lambda torch: torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction,
    "blas": lambda torch: str(torch.backends.cuda.preferred_blas_library()),
}


def fingerprint(torch: "Any" = None) -> "Dict[str, Any]":
    """Return versions, processor, settings, and torch's GPUs, if any."""
    facts: "Dict[str, Any]" = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "libc": " ".join(platform.libc_ver()).strip(),
        "cpu_model": _cpu_model(),
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "environment": _environment(),
    }
    if torch is not None:
        capability = getattr(getattr(torch.backends, "cpu", None), "get_cpu_capability", None)
        facts["torch"] = str(torch.__version__)
        facts["torch_git"] = torch.version.git_version
        facts["cpu_capability"] = capability() if capability is not None else None
        facts["threads"] = torch.get_num_threads()
        facts["interop_threads"] = _ask(lambda: torch.get_num_interop_threads())
        facts["mkl"] = _ask(lambda: bool(torch.backends.mkl.is_available()))
        facts["numpy"] = getattr(sys.modules.get("numpy"), "__version__", None)
        facts["triton"] = distribution_version("triton") or distribution_version("pytorch-triton")
        facts["cuda_build"] = bool(torch.version.cuda or torch.version.hip)
        facts["settings"] = {name: _ask(lambda: flag(torch)) for name, flag in _FLAGS.items()}  # noqa: B023  called at once
        facts["cuda"] = _cuda(torch) if torch.cuda.is_available() else None
    return facts


def _ask(question: "Callable[[], Any]") -> "Any":
    """Return an answer, None if this torch does not support the question."""
    try:
        return question()
    except Exception:
        return None


def _environment() -> "Dict[str, str]":
    return {
        name: "a path" if value.startswith("/") else value[:500]
        for name, value in sorted(os.environ.items())
        if _VARIABLES.fullmatch(name) and not _SECRET.search(name)
    }


def distribution_version(distribution: str) -> "Optional[str]":
    """Return the version of an installed distribution, or None."""
    try:
        from importlib.metadata import version

        return version(distribution)
    except Exception:
        return None


def _cpu_model() -> "Optional[str]":
    return _search("/proc/cpuinfo", r"^model name\s*:\s*(.+)$")


def _cuda(torch: "Any") -> "Dict[str, Any]":
    devices = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    major = (torch.version.cuda or "").partition(".")[0]
    names = ("cublas", "cudnn", "nccl", "cuda-runtime")
    libraries = {name: distribution_version(f"nvidia-{name}-cu{major}") for name in names}
    return {
        "version": torch.version.cuda or torch.version.hip,
        "cudnn": torch.backends.cudnn.version(),
        "cublas": _cublas() or libraries["cublas"],
        "nccl": _ask(lambda: ".".join(map(str, torch.cuda.nccl.version()))),
        "packages": libraries,
        "driver": _search("/proc/driver/nvidia/version", r"Kernel Module.*?\s(\d+\.[\d.]+)\s"),
        "gpus": [
            {
                "name": device.name,
                "capability": f"{device.major}.{device.minor}",
                "multiprocessors": device.multi_processor_count,
                "memory": device.total_memory,
                "mig": "MIG" in device.name,
            }
            for device in devices
        ],
    }


def _cublas() -> "Optional[str]":
    """Return the version of this process's loaded cuBLAS."""
    import ctypes

    for path in list_mapped_files("libcublas.so"):
        parts: "List[str]" = []
        for which in range(3):  # MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL of libraryPropertyType
            value = ctypes.c_int()
            if _ask(lambda: ctypes.CDLL(path).cublasGetProperty(which, ctypes.byref(value))) != 0:  # noqa: B023  called at once
                return None
            parts.append(str(value.value))
        return ".".join(parts)
    return None


def list_mapped_files(name: str) -> "List[str]":
    """Return the mapped files of this process that match a text."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            paths = {line.split(None, 5)[5].strip() for line in file if name in line}
    except (OSError, IndexError):
        return []
    return sorted(paths)


def _search(path: str, pattern: str) -> "Optional[str]":
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            match = re.search(pattern, file.read(), re.MULTILINE)
    except OSError:
        return None
    return match.group(1).strip() if match else None
