"""The platform of NumPy's results.

It has versions, threads, kernels and the processor.
"""

import contextlib
import sys
from importlib import import_module

from reprobuild_runtime.fingerprint import distribution_version, fingerprint
from reprobuild_runtime.probes.arrays import blas

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

LOADED = ("scipy.linalg", "sklearn.cluster")  # modules that load a BLAS and an OpenMP of their own
LIBRARIES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "jax",
    "jaxlib",
    "tensorflow",
    "tensorflow-cpu",
    "keras",
    "threadpoolctl",
    "joblib",
)


def about(numpy: "Any") -> "Dict[str, Any]":
    """Return the fingerprint of a process that has imported NumPy."""
    for name in LOADED:
        with contextlib.suppress(Exception):
            import_module(name)
    found = fingerprint()
    known = blas.libraries()
    found["cuda_build"] = False  # the probes here do not compute on a GPU
    found["versions"] = {name: distribution_version(name) for name in LIBRARIES}
    found["numpy"] = str(numpy.__version__)
    found["blas"] = known
    found["threads"] = blas.threads(known) or None
    found["openmp_threads"] = blas.openmp()
    found["cpu_features"] = _features() or None
    return found


def _features() -> str:
    """Return the processor's instruction sets, as NumPy names them."""
    for name in ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath"):
        there = getattr(sys.modules.get(name), "__cpu_features__", None)
        if isinstance(there, dict):
            return " ".join(sorted(each for each, has in there.items() if has))[:1000]
    return ""
