"""The effective state of this process.

It has flags, variables, states of generators, and versions.
"""

# ruff: noqa: TID251  the environment is what it reads

import hashlib
import os
import sys
from functools import partial

from reprobuild_runtime import settings
from reprobuild_runtime.profiles import apply, choose

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional

# Variables that change results, beside those that profiles name. Values of others are never recorded.
VARIABLES = (
    "PYTHONHASHSEED", "REPROBUILD_SEED", "REPROBUILD_SEED_EXPLICIT", "REPROBUILD_PROFILE", "REPROBUILD_CHOICES",
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_CBWR", "ATEN_CPU_CAPABILITY",
    "ONEDNN_MAX_CPU_ISA", "NPY_DISABLE_CPU_FEATURES", "OPENBLAS_CORETYPE",
    "KMP_DETERMINISTIC_REDUCTION", "TZ", "LC_ALL",
    "NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "PYTORCH_TUNABLEOP_ENABLED", "CUDNN_ERRATA_JSON_FILE",
    "CUDA_LAUNCH_BLOCKING", "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_VISIBLE_DEVICES",
    "TORCHINDUCTOR_BATCH_INVARIANT", "TORCHINDUCTOR_NUMERICS",
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES", "TRITON_CACHE_AUTOTUNING",
    "MAMBA_DETERMINISTIC", "CAUSAL_CONV1D_DETERMINISTIC", "HOROVOD_FUSION_THRESHOLD",
    "NCCL_NTHREADS", "NCCL_SOCKET_NTHREADS", "NCCL_P2P_NET_DISABLE", "NCCL_TOPO_FILE", "NCCL_GRAPH_FILE",
    "ASCEND_LAUNCH_BLOCKING", "WORLD_SIZE", "RANK", "LOCAL_RANK",
)  # fmt: skip
_FLAGS = (
    "torch.backends.cudnn.deterministic", "torch.backends.cudnn.benchmark", "torch.backends.cudnn.allow_tf32",
    "torch.backends.cuda.matmul.allow_tf32", "torch.backends.mkldnn.deterministic",
    "torch.utils.deterministic.fill_uninitialized_memory",
)  # fmt: skip
_CALLS = (
    "torch.are_deterministic_algorithms_enabled", "torch.is_deterministic_algorithms_warn_only_enabled",
    "torch.get_num_threads", "torch.get_num_interop_threads", "torch.get_float32_matmul_precision",
    "torch.initial_seed",
)  # fmt: skip
_VERSIONS = ("torch", "numpy", "tensorflow", "jax", "jaxlib")


def environment() -> "Dict[str, Optional[str]]":
    """Return the known variables that are set.

    They are as the C library has them, because libraries set some below Python.
    """
    every = choose.data()["profiles"].values()
    named = {entry["name"] for profile in every for entry in profile["settings"] if choose.is_variable(entry)}
    values = {name: variable(name) for name in sorted({*VARIABLES, *named})}
    return {name: apply.display_value(value) for name, value in values.items() if value is not None}


def variable(name: str) -> "Optional[str]":
    """Return a variable as a C library would see it now.

    This needs ctypes to be loaded; else it is as Python has it.
    """
    ctypes = sys.modules.get("ctypes")
    try:
        if ctypes is not None:
            getenv = ctypes.CDLL(None).getenv
            getenv.restype = ctypes.c_char_p
            value: "Optional[bytes]" = getenv(name.encode())
            return None if value is None else os.fsdecode(value)
    except Exception:  # no C library like glibc and musl
        pass
    return os.environ.get(name)


def read_flags() -> "Dict[str, object]":
    """Return the flags of loaded frameworks that change results."""
    values: "Dict[str, object]" = {}
    for name in _FLAGS:
        if name.endswith(".allow_tf32") and _has(name.replace("allow_tf32", "fp32_precision")):
            name = name.replace("allow_tf32", "fp32_precision")  # since 2.9 the old name warns, or raises
        _put(values, name, partial(apply.read_flag, {"name": name}))
    for name in _CALLS:
        _put(values, name, partial(apply.read_flag, {"name": name, "call": True}))
    return values


def _has(name: str) -> bool:
    try:
        holder, attribute = apply.resolve(name)
    except LookupError:
        return False
    return hasattr(holder, attribute)


def generators() -> "Dict[str, str]":
    """Return a digest of each existing generator's state.

    No library and no device is initialised.
    """
    digests: "Dict[str, object]" = {}
    random, numpy, torch = (sys.modules.get(name) for name in ("random", "numpy.random", "torch"))
    if random is not None:
        _put(digests, "random", lambda: _digest(repr(random.getstate()).encode()))
    if numpy is not None:
        _put(digests, "numpy.random", lambda: _digest(_numpy_state(numpy)))
    if torch is not None:
        _put(digests, "torch", lambda: _digest(bytes(torch.default_generator.get_state().tolist())))
        _put(digests, "torch.cuda", lambda: _cuda_states(torch))
    return {name: str(value) for name, value in digests.items() if value is not None}


def versions() -> "Dict[str, str]":
    """Return the versions of loaded libraries, and of Python."""
    values: "Dict[str, object]" = {"python": "%d.%d.%d" % sys.version_info[:3]}
    for name in _VERSIONS:
        module = sys.modules.get(name)
        if module is not None:
            _put(values, name, partial(getattr, module, "__version__"))
    return {name: str(value) for name, value in values.items()}


def take() -> "Dict[str, Any]":
    """Return the whole effective state."""
    return {
        "environment": environment(),
        "flags": read_flags(),
        "generators": generators(),
        "versions": versions(),
        "threads": {
            "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        },
        "hash_order_is_chosen": settings.hash_order_is_chosen(),
    }


def _put(values: "Dict[str, object]", name: str, read: "Callable[[], object]") -> None:
    """Record a value.

    A value that this release lacks is left out, and an error must not reach the job.
    """
    try:
        values[name] = read()
    except Exception:
        return


def _digest(state: bytes) -> str:
    return hashlib.sha256(state).hexdigest()


def _numpy_state(numpy_random: "Any") -> bytes:
    name, keys, *rest = numpy_random.get_state()
    return repr((name, keys.tobytes(), rest)).encode()


def _cuda_states(torch: "Any") -> "Optional[str]":
    if not torch.cuda.is_initialized():
        return None
    states = [bytes(generator.get_state().tolist()) for generator in torch.cuda.default_generators]
    return _digest(b"".join(states))


def requested() -> "Dict[str, Any]":
    """Return the requested seed, its origin, the profile, and settings."""
    environ_seed = settings.read(os.environ)
    seed, explicit = environ_seed if environ_seed is not None else (None, False)
    entries: "List[Dict[str, Any]]" = []
    names: "List[str]" = []
    if explicit:
        from reprobuild_runtime.profiles import versions as releases

        try:
            names = list(choose.names(os.environ.get(choose.PROFILE)))
        except choose.UnknownProfileError:
            names = []
        entries = choose.settings(names, releases.list_own_directories()) if names else []
    return {"seed": seed, "explicit": explicit, "profile": ",".join(names), "entries": entries}
