"""The CUDA code of an image.

It is found by the image's lock and verdict, and by the wheel of torch if a store has it.
"""

from __future__ import annotations

import re

from reprobuild.doctor.preflight.gpus import find_cuda_target
from reprobuild.ecosystems.pypi.torch_build import recall_torch_build
from reprobuild.lock.distributions import distributions, environment_wheels
from reprobuild.lock.model import Lock
from reprobuild.resolve.cuda.rules import CudaTarget
from reprobuild.store.store import Store
from reprobuild.verify.determinism.document import flatten_fingerprint
from reprobuild.verify.verdict import Verdict

_LABEL = re.compile(r"[^+]+\+cu(\d{1,2})(\d)(?:\..*)?")
_VERSION = re.compile(r"\d{1,3}\.\d{1,3}")


def cuda_code(lock: Lock, verdict: Verdict | None, store: Store) -> CudaTarget | None:
    """Return the CUDA code of an image, or None.

    `cuda` is empty if its version is unknown.

    Args:
        lock: of the image.
        verdict: its verdict file, whose fingerprints record whether torch was built with CUDA.
        store: a wheel of torch in it is read.

    Raises:
        BuildError: the wheel of torch is malicious or damaged.
    """
    target = find_cuda_target(lock, store)
    if target or "torch" not in distributions(lock):
        return target
    torch = next((wheel for wheel in environment_wheels(lock) if wheel.name == "torch"), None)
    if torch and (store.has(torch.file.sha256) or recall_torch_build(torch.file, store)):
        return None
    facts = {
        name: value
        for smoke in (verdict.smoke if verdict else ())
        for name, value in flatten_fingerprint(smoke.fingerprint)
    }
    conda = next((package for package in lock.conda if "torch" in package.distributions), None)
    version = torch.version if torch else conda.version if conda else ""  # of a source that was not built yet
    title = f"torch {version}".rstrip()
    if label := _LABEL.fullmatch(version):
        return CudaTarget(what=title, cuda=f"{label[1]}.{label[2]}")
    if _VERSION.fullmatch(facts.get("cuda.version", "")):
        return CudaTarget(what=title, cuda=facts["cuda.version"])
    # conda's torch for CUDA needs conda's runtime library, and `compiled_of` would have found that.
    of_conda = torch is None and conda is not None
    without = of_conda or version.endswith("+cpu") or facts.get("cuda_build") == "false"
    return None if without else CudaTarget(what=title, cuda="")
