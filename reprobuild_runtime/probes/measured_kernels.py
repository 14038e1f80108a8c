"""A compiled network with measured kernels: prints a digest of its output as a line of JSON.

    TORCHINDUCTOR_CACHE_DIR=DIR python measured_kernels.py DEVICE [inverse|random]

The compiler measures several kernels of each product, and keeps the fastest. The second argument distorts the measured
times. On a GPU, PyTorch's own switch does that (TORCHINDUCTOR_DISTORT_BENCHMARKING_RESULT). It has no effect on the
CPU, where this program changes the times in the same way (torch/_inductor/runtime/benchmarking.py).
"""

import json
import os
import random
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
if sys.path and os.path.abspath(sys.path[0]) == _HERE:  # run by its path: our file names must hide no module
    del sys.path[0]
if os.path.dirname(os.path.dirname(_HERE)) not in sys.path:
    sys.path.insert(0, os.path.dirname(os.path.dirname(_HERE)))

from reprobuild_runtime.digest import digest  # noqa: E402  after the paths
from reprobuild_runtime.probes.compiled import explain_absence  # noqa: E402  after the paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ROWS, WIDTHS = 96, (512, 768, 1024, 320)
SWITCH = "distort_benchmarking_result"


def main(device: str, distortion: str = "") -> int:
    """Print `digest`, or `absent` with the reason against the control in this image."""
    import torch

    absence = explain_absence(torch, device)
    if absence:
        return _print(absent=absence)
    try:
        from torch._inductor import config
        from torch._inductor.runtime import benchmarking
    except ImportError:
        return _print(absent="this torch has no compiler that measures")
    if device == "cpu":
        torch.set_num_threads(max(2, torch.get_num_threads()))
        if not hasattr(benchmarking.Benchmarker, "benchmark_cpu"):
            return _print(absent="this torch measures no kernels of the CPU")
        if distortion:
            _distort(benchmarking.Benchmarker, distortion)
    elif not hasattr(getattr(config, "test_configs", config), SWITCH):
        return _print(absent="this torch has no switch that distorts measurements")
    private = torch.Generator()
    private.manual_seed(0)
    layers = [_linear(torch, private, *WIDTHS[at : at + 2]) for at in range(len(WIDTHS) - 1)]
    network = torch.nn.Sequential(*layers).to(device).eval()
    data = torch.randn(ROWS, WIDTHS[0], generator=private).to(device)
    torch._logging.set_logs(inductor=50)
    with torch.no_grad():
        output = torch.compile(network, mode="max-autotune-no-cudagraphs")(data)
    return _print(digest=digest([output.cpu()]))


def _distort(benchmarker: "Any", distortion: str) -> None:
    """Replace the times of kernels on the CPU by their inverses, or by random numbers."""
    measure = benchmarker.benchmark_cpu

    def distorted(*arguments: "Any", **options: "Any") -> float:
        milliseconds = measure(*arguments, **options)
        return random.SystemRandom().random() if distortion == "random" else 1 / max(milliseconds, 1e-9)

    benchmarker.benchmark_cpu = distorted


def _linear(torch: "Any", private: "Any", before: int, after: int) -> "Any":
    layer = torch.nn.Linear(before, after)
    for values in layer.parameters():
        values.data = torch.randn(values.shape, generator=private) / before**0.5
    return layer


def _print(**answer: str) -> int:
    print(json.dumps(answer), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
