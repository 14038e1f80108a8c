"""A compiled network whose kernels are chosen by measurements: prints a hash of its output as JSON.

The experiment `choices` runs it in containers. It also counts the measurements of this process, and the seconds of the
first call. Random numbers replace the measured times: torch's own switch does that on a GPU alone.
"""

import hashlib
import json
import random
import time
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch._dynamo.utils import counters
from torch._inductor.runtime.benchmarking import Benchmarker

measure = Benchmarker.benchmark_cpu


def distorted(*arguments: Any, **options: Any) -> float:
    measure(*arguments, **options)
    return random.SystemRandom().random()


Benchmarker.benchmark_cpu = distorted
torch.manual_seed(0)
torch._logging.set_logs(inductor=50)
widths = (512, 768, 1024, 320)
layers = [layer for n, m in pairwise(widths) for layer in (nn.Linear(n, m), nn.GELU())]
network = torch.compile(nn.Sequential(*layers), mode="max-autotune")
data = torch.randn(96, widths[0])
began = time.perf_counter()
with torch.no_grad():
    output = network(data)
seconds = time.perf_counter() - began
measured = sum(count for name, count in counters["inductor"].items() if name.endswith(".benchmark_cpu"))
digest = hashlib.sha256(output.numpy().tobytes()).hexdigest()[:16]
print(json.dumps({"result": digest, "measured": measured, "seconds": round(seconds, 1)}))
