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


def fingerprint_process(numpy: "Any") -> "Dict[str, Any]":
    """Return the fingerprint of a process that has imported NumPy."""
    for name in LOADED:
        with contextlib.suppress(Exception):
            import_module(name)
    facts = fingerprint()
    known = blas.libraries()
    facts["cuda_build"] = False  # the probes here do not compute on a GPU
    facts["versions"] = {name: distribution_version(name) for name in LIBRARIES}
    facts["numpy"] = str(numpy.__version__)
    facts["blas"] = known
    facts["threads"] = blas.threads(known) or None
    facts["openmp_threads"] = blas.openmp()
    facts["cpu_features"] = _features() or None
    return facts


def _features() -> str:
    """Return the processor's instruction sets, as NumPy names them."""
    for name in ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath"):
        features = getattr(sys.modules.get(name), "__cpu_features__", None)
        if isinstance(features, dict):
            return " ".join(sorted(feature for feature, has in features.items() if has))[:1000]
    return ""
