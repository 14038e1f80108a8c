"""GPUs, driver and their libraries."""

from __future__ import annotations

import os
import re
import sys
import time
from typing import Any, Dict, Mapping

from reprobuild_portable.capture.files import _path, _scan, _text
from reprobuild_portable.capture.model import Context, GaveUpError, Taken
from reprobuild_portable.capture.processes import _program, _run

# Fields of `nvidia-smi`. A field that an older driver does not know fails the whole query, so there is a short list.
_GPU = (
    "index,name,uuid,driver_version,memory.total,pci.bus_id,vbios_version,compute_cap,ecc.mode.current,mig.mode.current",
    "index,name,uuid,driver_version,memory.total",
)
_LIBRARIES = re.compile(
    r"/lib(cuda|cudart|cudnn|nccl|cublas|cublasLt|mpi|ucp|fabric|hip\w*|rccl|gomp|iomp5|mkl_\w+)[.\w-]*\.so[.\d]*$"
)


def take_gpu(context: Context) -> Taken:
    """Capture GPUs, driver, CUDA, cuDNN and NCCL.

    The facts come from files and `nvidia-smi`. torch is read only if it is loaded.
    """
    facts: Dict[str, Any] = {
        "driver": _text("/proc/driver/nvidia/version"),
        "headers": _headers(context.environ),
    }
    cards = [_text(os.path.join(card.path, "information")) for card in _scan("/proc/driver/nvidia/gpus")]
    facts["cards"] = [dict(re.findall(r"(?m)^([^:\n]+?):[ \t]*(.*?)[ \t]*$", card)) for card in sorted(cards)]
    facts["libraries"] = sorted(
        {
            line.split(" ")[-1]
            for line in _text("/proc/self/maps", 1 << 24).split("\n")
            if _LIBRARIES.search(line)
        }
    )
    torch = sys.modules.get("torch")
    if torch is not None:
        version = getattr(torch, "version", None)
        facts["torch"] = {
            name: str(getattr(version, name, None)) for name in ("__version__", "cuda", "hip", "git_version")
        }
    facts.update(_ask_nvidia_smi(context))
    if not any(facts.values()):
        raise GaveUpError("not-there")
    return Taken(facts)


def _ask_nvidia_smi(context: Context) -> Dict[str, Any]:
    program = _program("nvidia-smi", context)
    if program is None:
        return {}
    short = context._replace(deadline=min(context.deadline, time.monotonic() + 5))
    reason = ""
    for fields in _GPU:
        try:
            output = _run([program, f"--query-gpu={fields}", "--format=csv,noheader"], short, most=1 << 20)
        except (GaveUpError, OSError) as err:
            reason = err.reason if isinstance(err, GaveUpError) else "failed"
            continue
        return {
            "nvidia_smi": output.decode("utf-8", "replace").strip().split("\n"),
            "nvidia_smi_fields": fields.split(","),
        }
    return {"nvidia_smi": None, "nvidia_smi_reason": reason}


def _headers(environ: Mapping[str, str]) -> Dict[str, str]:
    """Return the versions of CUDA, cuDNN and NCCL, by file.

    The files are headers and version files.
    """
    homes = [
        environ[name] for name in ("CUDA_HOME", "CUDA_PATH", "CUDNN_HOME", "NCCL_HOME") if environ.get(name)
    ]
    homes += ["/usr/local/cuda", "/usr"]
    versions = {}
    for home in dict.fromkeys(homes):
        for name in ("version.json", "version.txt"):
            match = re.search(
                r'(?s)"cuda"\s*:\s*{.*?"version"\s*:\s*"([^"]+)"|CUDA Version ([\d.]+)',
                _text(os.path.join(home, name)),
            )
            if match:
                versions[_path(os.path.join(home, name))] = match.group(1) or match.group(2)
        for header in (
            "cudnn_version.h",
            "nccl.h",
            "x86_64-linux-gnu/cudnn_version.h",
            "aarch64-linux-gnu/cudnn_version.h",
        ):
            path = os.path.join(home, "include", header)
            parts = re.findall(
                r"#define\s+(?:CUDNN|NCCL)_(?:MAJOR|MINOR|PATCHLEVEL|PATCH)\s+(\d+)", _text(path)
            )
            if parts:
                versions[_path(path)] = ".".join(parts[:3])
    return versions
