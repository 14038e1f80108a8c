"""What results may depend on beside the program: digests are comparable only between equal fingerprints."""

import os
import platform
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Optional


def fingerprint(torch: "Any" = None) -> "Dict[str, Any]":
    """Return the versions, the processor and, where torch sees one, the GPUs; no identity of this machine."""
    found: "Dict[str, Any]" = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpu_model": _cpu_model(),
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
    }
    if torch is not None:
        capability = getattr(getattr(torch.backends, "cpu", None), "get_cpu_capability", None)
        found["torch"] = str(torch.__version__)
        found["torch_git"] = torch.version.git_version
        found["cpu_capability"] = capability() if capability is not None else None
        found["threads"] = torch.get_num_threads()
        found["numpy"] = getattr(sys.modules.get("numpy"), "__version__", None)
        found["cuda_build"] = bool(torch.version.cuda or torch.version.hip)
        found["cuda"] = _cuda(torch) if torch.cuda.is_available() else None
    return found


def _cpu_model() -> "Optional[str]":
    return _search("/proc/cpuinfo", r"^model name\s*:\s*(.+)$")


def _cuda(torch: "Any") -> "Dict[str, Any]":
    devices = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return {
        "version": torch.version.cuda or torch.version.hip,
        "cudnn": torch.backends.cudnn.version(),
        "driver": _search("/proc/driver/nvidia/version", r"Kernel Module.*?\s(\d+\.[\d.]+)\s"),
        "gpus": [
            {
                "name": device.name,
                "capability": f"{device.major}.{device.minor}",
                "multiprocessors": device.multi_processor_count,
                "memory": device.total_memory,
            }
            for device in devices
        ],
    }


def _search(path: str, pattern: str) -> "Optional[str]":
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            found = re.search(pattern, file.read(), re.MULTILINE)
    except OSError:
        return None
    return found.group(1).strip() if found else None
