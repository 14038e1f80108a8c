"""The time of the determinism test on the CPU.

It is measured in full and in short, against a fixed piece of work with torch.

The work is one process that imports torch and its deterministic algorithms and multiplies matrices, so a slow or busy
machine slows both sides. The interpreter is that of the results' own context, installed outside of a container.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from benchmarks.measure import ROOT, Figure, NotRunError, Sample, alternate, compare, time_process
from tests.torch_environment import make_torch_environment

PAIRS = 2
MODULES = ("reprobuild_runtime/probes",)
AGAINST = "one process: import torch, 100 products of 1024 x 1024 matrices in strict mode"
# The ratios of 90 s and 15 s to that work on 2 idle cores: some 6 s.
LIMITS = {"smoke test": 15.0, "smoke test, quick": 2.5}
WORK = """
import torch
torch.use_deterministic_algorithms(True)
a = torch.randn(1024, 1024)
for _ in range(100):
    a = (a @ a).tanh()
"""


def measure(results: Path, folder: Path, pairs: int = PAIRS) -> list[Figure]:
    """Return the two figures.

    NotRunError is raised without results of `make demo`.
    """
    if not (results / "context").is_dir():
        raise NotRunError(f"there are no results in {results}; `make demo` makes them")
    made = folder / "torch"
    shutil.rmtree(made, ignore_errors=True)
    return figures(make_torch_environment(results / "context", made), pairs)


def figures(python: Path, pairs: int) -> list[Figure]:
    """Measure with an interpreter that has torch."""
    env = {"PATH": os.environ["PATH"], "REPROBUILD_SEED": "7", "PYTHONHASHSEED": "7"}
    program = str(ROOT / "reprobuild_runtime" / "probes" / "run.py")
    options = {"smoke test": '{"seed": 7}', "smoke test, quick": '{"seed": 7, "quick": true}'}

    def work() -> Sample:
        return time_process([str(python), "-c", WORK], env=env)

    found = []
    for name, text in options.items():
        ours, theirs = alternate(lambda: time_process([str(python), program, text], env=env), work, pairs)  # noqa: B023  # called at once
        found.append(compare(name, ours, theirs, AGAINST, limit=LIMITS[name], modules=MODULES))
    return found
