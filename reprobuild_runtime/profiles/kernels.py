"""Selection of MKL's kernels from a single thread.

MKL of the 2024 releases, which the wheels of torch hold, chooses the kernel of each function of vectors (exp, log,
sqrt, ...) at its first call. If several threads make that call at once, as the first large `exp` of a fresh process
does, one of them may get a kernel of another processor and of less accuracy, for its part of that one call. It happens
in strict mode, too; docs/determinism.md has its frequency. https://github.com/pytorch/pytorch/issues/188792
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List

# Functions that torch may call in MKL (aten/src/ATen/cpu/vml.h), and similar ones: an extra call does no harm.
FUNCTIONS = (
    "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "floor", "lgamma",
    "log", "log10", "log1p", "log2", "round", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
)  # fmt: skip
TYPES = ("float32", "float64")
FEW = 16  # numbers: no work for a second thread


def settle(torch: "Any") -> "List[str]":
    """Call each function once, in this thread.

    Return messages if that fails.

    Args:
        torch: the module; one that makes no tensors (it is incomplete) is left alone.
    """
    if not hasattr(torch, "full"):
        return []
    try:
        with torch.no_grad():
            for name in TYPES:
                numbers = torch.full((FEW,), 0.5, dtype=getattr(torch, name), device="cpu")
                for function in FUNCTIONS:
                    if hasattr(torch, function):  # else it is another release
                        getattr(torch, function)(numbers)
    except Exception as err:  # an error of a library must not end the job
        return [f"MKL's kernels are not chosen yet: {type(err).__name__}: {err}"]
    return []
