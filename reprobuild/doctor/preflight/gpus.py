"""The check of this machine's GPUs for an image.

It compares driver and compute capability (`resolve.cuda_rules`). A machine without a GPU builds every image
without a warning. It is about the image's CUDA code: code that certainly does not run is an error only if the
user requests a GPU.
"""

from __future__ import annotations

import re

from reprobuild.ecosystems.pypi.torch_build import TorchBuild, read_torch_build, recall_torch_build
from reprobuild.errors import UsageError
from reprobuild.lock.distributions import environment_wheels
from reprobuild.lock.model import Lock
from reprobuild.resolve.cuda.nvidia_smi import Gpus
from reprobuild.resolve.cuda.rules import (
    CudaTarget,
    check_cuda_target,
    compat_package,
    runtime_package,
)
from reprobuild.store.store import Store

_RUNTIME = re.compile(r"nvidia-cuda-runtime(-cu\d{2})?")
_OF_CONDA = ("cuda-cudart", "cudatoolkit")
NOT_ASKED = ("auto", "none", "")


def check_gpus(lock: Lock, store: Store, here: Gpus, request: str) -> list[str]:
    """Return the reasons against running the image on these GPUs.

    Args:
        lock: of the image.
        store: the architectures of torch are read from its wheel, if the store has it.
        here: the machine's GPUs.
        request: the user's request: "auto", "all", "none", or ids.

    Raises:
        UsageError: a requested GPU cannot run the image.
    """
    compiled = find_cuda_target(lock, store) if here.found and request != "none" else None
    if compiled is None:
        return []
    ids = request.split(",")
    gpus = [gpu for gpu in here.found if {gpu.index, gpu.uuid} & {*ids}] or here.found
    findings = [
        finding for gpu in gpus for finding in check_cuda_target(compiled, gpu, here.driver, "this machine")
    ]
    certain = [finding.text for finding in findings if finding.certain]
    if certain and request not in NOT_ASKED:
        raise UsageError(
            certain[0],
            hint="leave the GPU out with `--gpu none`, or take a machine whose driver and GPU fit",
        )
    return list(dict.fromkeys(finding.text for finding in findings))


def find_cuda_target(lock: Lock, store: Store) -> CudaTarget | None:
    """Return the CUDA code of an image, or None.

    It is torch's own, else the version of the runtime library.

    Raises:
        BuildError: the wheel of torch is malicious or damaged.
    """
    wheels = environment_wheels(lock)
    torch = next((wheel for wheel in wheels if wheel.name == "torch"), None)
    build: TorchBuild | None = None
    if torch:
        is_stored = store.has(torch.file.sha256)
        build = read_torch_build(torch.file, store) if is_stored else recall_torch_build(torch.file, store)
    compat = compat_package(lock.base.installed)
    if build and build.version:
        title = f"torch {build.version}"
        known = CudaTarget(what=title, cuda=build.cuda, architectures=build.architectures, compat=compat)
        return known if build.cuda else None
    for wheel in wheels:
        number = re.match(r"\d+\.\d+", wheel.version)
        if _RUNTIME.fullmatch(wheel.name) and number:
            return CudaTarget(what=f"{wheel.name} {wheel.version}", cuda=number[0], compat=compat)
    for package in lock.conda:
        number = re.match(r"\d+\.\d+", package.version)
        if package.name in _OF_CONDA and number:
            return CudaTarget(what=f"{package.name} {package.version}", cuda=number[0], compat=compat)
    of_base = runtime_package(lock.base.installed)
    return CudaTarget(what=f"{of_base[0]} of the base", cuda=of_base[1], compat=compat) if of_base else None
