"""Disturbances of a computing process.

Results must not change because of them.

A race becomes visible if threads meet at another time, an uninitialised read if the memory had another content, a
choice of kernel if alignment or free memory differ. Megatron-LM's determinism tests do the same with streams and
jitter.
"""

import os
import random
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List

# Keeps half of the processors busy until its parent ends, for six hours at most. Hashing releases the interpreter's
# lock.
BUSY = """
import hashlib, os, sys, threading, time
parent, end = os.getppid(), time.monotonic() + 6 * 3600
def work():
    block = os.urandom(1 << 20)
    while os.getppid() == parent and time.monotonic() < end:
        hashlib.sha256(block).digest()
        time.sleep(0.002)
for _ in range(int(sys.argv[1])):
    threading.Thread(target=work).start()
print('{"begin": "busy"}', flush=True)
"""


class Disturbance:
    """A disturbance of this process before each run of a probe.

    Each is different.
    """

    def __init__(self, torch: "Any", device: str) -> None:
        self._torch, self._device = torch, device
        self._random = random.SystemRandom()
        self._kept: "List[Any]" = []
        self._streams = _streams(torch) if device == "cuda" else []

    def disturb(self) -> None:
        """Leave free memory dirty and shifted.

        On a GPU, also start work on other streams, and a delay on this one.
        """
        torch, draw = self._torch, self._random
        self._kept = self._kept[-4:]
        for _ in range(6):
            size = draw.choice((24, 4096, 65536, 1 << 20)) + draw.randrange(1, 513)
            dirty = torch.empty(size, dtype=torch.uint8, device=self._device)
            dirty.fill_(draw.randrange(1, 256))
            if draw.random() < 0.3:
                self._kept.append(dirty)  # the next allocations come from elsewhere
        for stream in self._streams:
            with torch.cuda.stream(stream):
                size = draw.choice((128, 512, 1024))
                work = torch.ones(size, size, device=self._device)
                for _ in range(draw.randrange(1, 6)):
                    work = work @ work
        if self._streams and hasattr(torch.cuda, "_sleep"):
            torch.cuda._sleep(draw.randrange(1, 2000000))


def _streams(torch: "Any") -> "List[Any]":
    # With one connection all streams are one queue: no work would run beside the probe.
    if os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS") == "1":  # noqa: TID251  CUDA read it, too
        return []
    return [torch.cuda.Stream(priority=priority) for priority in (0, -1)]


def companion(device: str) -> "List[str]":
    """Return the command of a second, busy process.

    It keeps the processors, or the GPU, busy.
    """
    if device == "cpu":
        return [sys.executable, "-I", "-S", "-c", BUSY, str(max(1, (os.cpu_count() or 1) // 2))]
    here = os.path.dirname(os.path.abspath(__file__))
    return [sys.executable, os.path.join(here, "child.py"), '{"task": "occupy"}']
