"""CUDA in captured system packages.

NVIDIA's archive has its version in their names.
"""

from __future__ import annotations

import re

from reprobuild.snapshot.model import Snapshot, SystemPackage

# cuda-toolkit-12-4, cuda-cudart-dev-12-4, libcublas-12-4, libnvjpeg-dev-12-4: https://docs.nvidia.com/cuda/cuda-installation-guide-linux/#meta-packages
_VERSIONED = re.compile(
    r"(?!cuda-(?:compat|drivers?)-)(?:cuda|lib(?:cu[a-z]+|np[a-z]+|nv[a-z]+))(?:-[a-z0-9]+)*?-(\d{1,2})-(\d)"
)
# libcudnn8 8.9.2.26-1+cuda12.1, libnccl2 2.18.3-1+cuda12.1
_LABELLED = re.compile(r"(?:libcudnn|libnccl|libnvinfer)[a-z0-9-]*")
_LABEL = re.compile(r"\+cuda(\d{1,2})\.(\d)")


def cuda_of(package: SystemPackage) -> str:
    """Return the CUDA version (`12.4`) of a system package.

    It is empty for any other package.
    """
    if package.mark == "residual":
        return ""
    match = _VERSIONED.fullmatch(package.name)
    if match is None and _LABELLED.fullmatch(package.name):
        match = _LABEL.search(package.version)
    return f"{match[1]}.{match[2]}" if match else ""


def is_cuda(name: str) -> bool:
    """Return whether a system package belongs to CUDA, by its name.

    NVIDIA's libraries over CUDA count, too.
    """
    return bool(_VERSIONED.fullmatch(name) or _LABELLED.fullmatch(name))


def cuda_packages(snapshot: Snapshot) -> dict[str, str]:
    """Return {name: version} of captured CUDA packages.

    They have CUDA's version in their names.
    """
    return {
        package.name: package.version
        for package in snapshot.packages
        if cuda_of(package) and _VERSIONED.fullmatch(package.name)
    }
