"""What the probes cost on a GPU, without one: their sizes on the device that has shapes and no numbers.

Prints {probe: {"drawn": numbers drawn, "elsewhere": numbers made on the CPU, "bytes": of the results}} as JSON.
"""

import json
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from reprobuild_runtime.probes import bench, child


class Bench(bench.Bench):
    """A bench that says it is a GPU."""

    def begin(self, name):
        self.private, self.shapes, self.others = None, [], []

    def pick(self, cpu, cuda):
        return cuda


class Meter(TorchDispatchMode):
    """Counts the numbers that are drawn, and those that are made on the CPU."""

    def __init__(self):
        super().__init__()
        self.drawn = self.elsewhere = 0

    def __torch_dispatch__(self, function, _types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor):
            self.drawn += made.numel() if "rand" in str(function) else 0
            self.elsewhere += made.numel() if made.device.type == "cpu" else 0
        return made


def measured(probe):
    table, meter = Bench(torch, "meta", 7), Meter()
    table.begin(probe.name)
    values = []
    try:
        with meter:
            values = probe.function(table)
    except (
        RuntimeError,
        NotImplementedError,
        AssertionError,
        ValueError,
        AttributeError,
        bench.NotHereError,
    ):
        pass  # what looks at numbers ends here; until then its inputs were drawn
    size = sum(value.numel() * value.element_size() for value in values if isinstance(value, torch.Tensor))
    return {"drawn": meter.drawn, "elsewhere": meter.elsewhere, "bytes": size}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    kinds = {"draws", "training", "optional"}  # these look at numbers, or have another package's sizes
    probes = [probe for probe in child.register().values() if not probe.thorough and probe.kind not in kinds]
    json.dump({probe.name: measured(probe) for probe in probes}, sys.stdout)
