"""Turn a captured ML environment into a frozen container image, and prove that it is the same."""

from __future__ import annotations

from typing import Any

__all__ = ["__version__", "enforce_reproducibility", "generator", "mark_step", "seed_worker"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import a function of the runtime package on its first use: the command line needs none of them."""
    if name in __all__:
        import reprobuild_runtime

        return getattr(reprobuild_runtime, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
