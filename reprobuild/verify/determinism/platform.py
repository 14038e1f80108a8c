"""Differences of fingerprints that change results.

They explain other digests. All others are only listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from reprobuild.verify.determinism.document import flatten_fingerprint
from reprobuild.verify.verdict import Deviation, Smoke

# A fact in only one of both is not a different fact, because the other is unknown. Variables may be unset.
_FACTS = re.compile(
    r"machine|cpu_model|cpu_capability|cpu_features|(openmp_)?threads|probe_threads\.\w+|settings\.\w+"
    r"|blas\.\d+\.(name|config|core|threads)"
)
_VARIABLES = re.compile(
    r"environment\.((OMP|MKL|OPENBLAS|BLIS)_NUM_THREADS|OMP_(DYNAMIC|SCHEDULE|THREAD_LIMIT)"
    r"|MKL_(CBWR|DYNAMIC|ENABLE_INSTRUCTIONS|DEBUG_CPU_TYPE)|(ONEDNN|DNNL)_(MAX_CPU_ISA|CPU_ISA_HINTS|DEFAULT_FPMATH_MODE)"
    r"|ATEN_CPU_CAPABILITY|OPENBLAS_CORETYPE|BLIS_ARCH_TYPE|TORCHINDUCTOR_\w+|REPROBUILD_PROFILE)"
)
_GPU_FACTS = re.compile(
    r"cuda\.(version|cudnn|cublas|nccl|driver|packages\.[\w-]+"
    r"|gpus\.\d+\.(name|capability|multiprocessors|memory|mig))"
)
_GPU_VARIABLES = re.compile(
    r"environment\.(CUBLAS_WORKSPACE_CONFIG|CUBLASLT_WORKSPACE_SIZE|NVIDIA_TF32_OVERRIDE|TORCH_ALLOW_TF32_\w+"
    r"|TORCH_BLAS_PREFER_\w+|NCCL_(ALGO|PROTO|NVLS_ENABLE|COLLNET_ENABLE|(MIN|MAX)_\w+|NTHREADS|BUFFSIZE|TUNER_\w+)"
    r"|NVTE_\w+|FLASH_ATTENTION_DETERMINISTIC|PYTORCH_TUNABLEOP_\w+|MIOPEN_\w+|HCCL_DETERMINISTIC|TRITON_\w+)"
)


def fingerprint_values(smoke: Smoke) -> Iterator[tuple[str, str]]:
    """Yield (name, value) of the machine and its settings in force."""
    return flatten_fingerprint({**smoke.fingerprint, "probe_threads": smoke.threads})


def platform_facts(smoke: Smoke) -> tuple[tuple[str, str], ...]:
    """Return the facts that results may depend on.

    Two determinism tests on a device are of one platform if these are equal.
    """
    pairs = fingerprint_values(smoke)
    return tuple(
        (name, value)
        for name, value in sorted(pairs)
        if explains_difference(smoke.device, Deviation(scope=smoke.device, name=name, then=value, now=value))
    )


def explains_difference(device: str, item: Deviation) -> bool:
    """Return whether a fingerprint difference explains other results.

    Both fingerprints are of one device.
    """
    if _VARIABLES.fullmatch(item.name):
        return True
    if device == "cuda" and _GPU_VARIABLES.fullmatch(item.name):
        return True
    both = item.then is not None and item.now is not None
    fact = _FACTS.fullmatch(item.name) or (device == "cuda" and _GPU_FACTS.fullmatch(item.name))
    return both and bool(fact)
