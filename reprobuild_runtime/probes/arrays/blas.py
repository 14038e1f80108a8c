"""Queries of this process's BLAS libraries.

They give versions, threads and kernels.
"""

import ctypes
import re

from reprobuild_runtime.fingerprint import list_mapped_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional

_THREADS = (
    "openblas_get_num_threads", "openblas_get_num_threads64_", "scipy_openblas_get_num_threads",
    "scipy_openblas_get_num_threads64_", "MKL_Get_Max_Threads", "bli_thread_get_num_threads",
)  # fmt: skip
_CONFIG = (
    "openblas_get_config", "openblas_get_config64_", "scipy_openblas_get_config", "scipy_openblas_get_config64_",
)  # fmt: skip
_CORE = tuple(name.replace("config", "corename") for name in _CONFIG)
_LIBRARY = re.compile(r"(libopenblas|libscipy_openblas|libmkl_rt|libblis)[^/]*$")


def libraries() -> "List[Dict[str, Any]]":
    """Return an entry for each loaded BLAS: OpenBLAS, MKL and BLIS.

    BLAS libraries without such functions are left out.
    """
    entries = []
    for path in list_mapped_files("lib"):
        named = _LIBRARY.search(path)
        try:
            library = ctypes.CDLL(path) if named else None
        except OSError:  # the file is no longer at its path
            library = None
        if library is not None and named is not None:
            about = {
                "name": named.group(1), "config": _text(library, _CONFIG), "core": _text(library, _CORE),
                "threads": _number(library, _THREADS),
            }  # fmt: skip
            if about not in entries:
                entries.append(about)
    return sorted(entries, key=repr)


def threads(known: "List[Dict[str, Any]]") -> int:
    """Return the largest number of threads, 0 if unknown."""
    return max((entry["threads"] or 0 for entry in known), default=0)


def openmp() -> "Optional[int]":
    """Return the number of OpenMP's threads, None without OpenMP."""
    for path in list_mapped_files("omp"):
        if re.search(r"lib(g|i)?omp\d*[^/]*\.so[^/]*$", path):
            try:
                return int(ctypes.CDLL(path).omp_get_max_threads())
            except (OSError, AttributeError):
                continue
    return None


def _text(library: "Any", names: "Any") -> "Optional[str]":
    for name in names:
        function = getattr(library, name, None)
        if function is not None:
            function.restype = ctypes.c_char_p
            text = function()
            return text.decode("utf-8", "replace").strip()[:300] if text else None
    return None


def _number(library: "Any", names: "Any") -> "Optional[int]":
    for name in names:
        function = getattr(library, name, None)
        if function is not None:
            return int(function())
    return None
