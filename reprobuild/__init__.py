"""Turn a captured ML environment into a frozen container image, and prove that it is the same."""

from __future__ import annotations

from typing import Any

__all__ = ["__version__", "enforce_reproducibility"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import `enforce_reproducibility` when it is asked for: the command line does not need it."""
    if name == "enforce_reproducibility":
        from reprobuild_runtime import enforce_reproducibility

        return enforce_reproducibility
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
