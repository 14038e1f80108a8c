"""Draws that this program has not seeded.

They are equal in two processes if and only if the start-up hook seeded them.
"""

# ruff: noqa: TID251  what the environment says is part of the answer

import hashlib
import os
import random
import sys
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict


def start(torch: "Any" = None, device: str = "cpu", *, numpy: bool = True) -> "Dict[str, Any]":
    """Return digests of first draws, and the hook's actions.

    A device may be included.

    Args:
        numpy: False if its import has just failed, or ended a process.
    """

    def sha256(value: object) -> str:
        return hashlib.sha256(repr(value).encode()).hexdigest()

    facts: "Dict[str, Any]" = {
        "random": sha256([random.random() for _ in range(8)]),
        "hash": sha256(hash("reprobuild")),
    }
    if torch is not None:
        facts["torch"] = sha256(torch.rand(8).tolist())
        if device == "cuda" and torch.cuda.is_available():
            facts["cuda"] = sha256(torch.rand(8, device=device).tolist())
    try:
        module = import_module("numpy.random") if numpy else None
        facts["numpy"] = sha256([float(module.random()) for _ in range(8)]) if module is not None else None
    except Exception as err:
        facts["numpy"] = None
        facts["numpy_why"] = f"{type(err).__name__}: {err}"
    facts["hook"] = None
    if "reprobuild_runtime.startup" in sys.modules:
        names = {
            "seed": "REPROBUILD_SEED",
            "explicit": "REPROBUILD_SEED_EXPLICIT",
            "hash_seed": "PYTHONHASHSEED",
        }
        facts["hook"] = {key: os.environ.get(name) for key, name in names.items()}
    return facts
