"""Detection of sorted environment dumps and torn values."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

PEM = re.compile(r"-----(BEGIN|END) [A-Z0-9 ]+-----")

# Names of variables with one-line values, so that debris elsewhere does not make them suspect.
SAFE = re.compile(
    r"(LD|PYTHON|CUDA|CUDNN|CUBLAS|NCCL|NVIDIA|NVTE|NVSHMEM|OMP|OMPI|GOMP|KMP|MKL|OPENBLAS|NUMEXPR|BLIS|VECLIB|MALLOC|GLIBC"
    r"|TORCH|TORCHINDUCTOR|TORCHELASTIC|PYTORCH|TRITON|XLA|JAX|TF|XFORMERS|FLASH|DS|DEEPSPEED|MEGATRON|ACCELERATE"
    r"|HF|TRANSFORMERS|DATASETS|TOKENIZERS|WANDB|MLFLOW|GLOO|UCX|FI|HCOLL|SHARP|MPICH|MPI|PMI|PMIX|I_MPI|ROCM|HIP|HSA|ROCR"
    r"|MIOPEN|GPU|SLURM|SLURMD|SRUN|SBATCH|PBS|LSB|LSF|SGE|KUBERNETES|CONDA|MAMBA|VIRTUAL_ENV|UV|PIP|LC|XDG|SSH|LMOD"
    r"|EBROOT|EBVERSION|EBDEVEL|EB|APPTAINER|SINGULARITY|CRAY|PE|SPACK)(_?[A-Z0-9][A-Z0-9_]*|_[A-Za-z0-9_]+)?"
    r"|PATH|LIBRARY_PATH|CPATH|C_INCLUDE_PATH|CPLUS_INCLUDE_PATH|MANPATH|INFOPATH|PKG_CONFIG_PATH|CMAKE_PREFIX_PATH"
    r"|ACLOCAL_PATH|MODULEPATH|LOADEDMODULES|_LMFILES_|MODULESHOME|JAVA_HOME|HOME|USER|LOGNAME|SHELL|SHLVL|TERM|PWD|OLDPWD"
    r"|HOSTNAME|HOST|LANG|LANGUAGE|TZ|TMPDIR|TMP|TEMP|EDITOR|PAGER|DISPLAY|MAIL|CC|CXX|FC|CFLAGS|CXXFLAGS|LDFLAGS|SOURCE_DATE_EPOCH"
    r"|RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|MASTER_ADDR|MASTER_PORT|NODE_RANK|GROUP_RANK|_|(?i:(http|https|ftp|no|all)_proxy)"
    r"|_ModuleTable\d*_|_ModuleTable_Sz_|__LMOD_[A-Za-z0-9_]+"
)
_PLAUSIBLE = re.compile(r"_?_?[A-Z][A-Z0-9_]*")
_MOST = 0.95


def is_sorted(rows: list[str]) -> bool:
    """Return whether lines went through `sort`, in any locale.

    Other locales skip punctuation or weigh it first, and ignore case; a few pairs out of order are allowed,
    since no such order is imitated exactly.
    """
    if len(rows) < 4:
        return False
    orders: tuple[Callable[[str], str], ...] = (
        lambda row: row,
        str.casefold,
        lambda row: re.sub(r"[\W_]", "", row).casefold(),
        lambda row: re.sub(r"[\W_]", " ", row).casefold(),
    )
    for order in orders:
        keys = [order(row) for row in rows]
        rising = sum(a <= b for a, b in pairwise(keys))
        if rising >= _MOST * (len(keys) - 1):
            return True
    return False


def is_fragment(name: str, value: str, pem: bool) -> bool:
    """Return whether `name=value` is the last line of a base64 block.

    Such a line is padded, and is not a variable.
    """
    if value not in ("", "=") or "_" in name or name.isupper():
        return False
    return pem or (len(name) >= 16 and bool(re.search(r"\d", name)) and name != name.lower())


def describe_suspicion(name: str, value: str, *, torn: bool, debris: bool) -> str:
    """Return the reason for doubts about a value, or an empty string.

    Args:
        name: the variable's name.
        value: its value, as captured.
        torn: whether the dump was sorted, so that a value may have lost lines.
        debris: whether lines without a name show that a value or function was torn.
    """
    if re.search(r"[^.]\.\.\.$", value) and len(value) > 20:
        return "it ends in `...`: something cut it"
    if not torn:
        return (
            ""
            if re.fullmatch(r"[A-Za-z_]\w*", name)
            else "an unusual name: it may be a line of another value"
        )
    if not SAFE.fullmatch(name):
        if _is_unbalanced(value):
            return "quotes or brackets stay open: sorting may have cut it"
        if not _PLAUSIBLE.fullmatch(name):
            return "an unusual name in a sorted dump: it may be a line of another value"
        if debris:
            return "the dump was sorted and holds torn values: this may be cut, or a piece of another"
    elif value.count('"') % 2 or value.count("{") > value.count("}"):
        return "quotes or brackets stay open: sorting may have cut it"
    return ""


def _is_unbalanced(value: str) -> bool:
    pairs = (("(", ")"), ("[", "]"), ("{", "}"))
    return value.count('"') % 2 == 1 or any(value.count(a) != value.count(b) for a, b in pairs)
