"""child.py with faults in some of its probes, for tests/runtime/test_smoke_torch.py."""

import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from reprobuild_runtime.probes import bench, child

child.register()


def racing(b):
    """Add with atomics where a layer norm would be: torch's strict mode cures it."""
    index = b.index(64, 1 << 22)
    values = b.randn(1 << 22)
    return [b.torch.zeros(64).index_put_((index,), values, accumulate=True)]


def uninitialised(b):
    """Give memory that nobody wrote to: strict mode fills it."""
    dirty = [b.torch.empty(24).fill_(time.perf_counter() + number) for number in range(50)]
    del dirty
    return [b.torch.empty(24)]


def clock(b):
    """Let the lowest bits follow the clock: no mode helps."""
    return [b.randn(8) + time.perf_counter_ns() % 1009]


def hidden_refusal(b):
    """Refuse what no documentation names."""
    order = b.torch.randperm(16)
    return [b.torch.zeros(16).put_(order, b.randn(16))]


def dying(b):
    os.kill(os.getpid(), signal.SIGSEGV)


PLANTED = {
    "layer_norm": racing, "group_norm": uninitialised, "rms_norm": clock, "conv2d": hidden_refusal, "lstm": dying,
}  # fmt: skip
for name, function in PLANTED.items():
    bench.PROBES[name].function = function

if __name__ == "__main__":
    sys.exit(child.main(sys.argv[1:]))
