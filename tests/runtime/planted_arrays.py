"""The child of an image without torch with faults in some of its probes, for tests/runtime/test_smoke_arrays.py."""

import os
import signal
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from reprobuild_runtime.probes.arrays import bench, child

child.register()


def racing(b):
    """Sum the parts of eight threads in the order in which they are done."""
    values, total, lock = b.randn(8, 64, 4096, spread=0), b.numpy.zeros(64), threading.Lock()

    def work(number):
        part = b.numpy.cbrt(values[number]).sum(axis=1)
        with lock:
            total[:] = total + part

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [total]


def racing_ahead(b):
    """The same, in the image's own threads alone: one thread cures it."""
    return [b.numpy.zeros(64)] if os.environ.get("OMP_NUM_THREADS") == "1" else racing(b)


def unseeded(b):
    """Draw from the system's entropy, as a generator without a seed does."""
    return [b.numpy.random.RandomState(int.from_bytes(os.urandom(4), "little")).standard_normal(8)]


def forgetful(b):
    """Draw once more from the global generator that the start-up hook seeded: another one in each process."""
    b.numpy.random.seed(os.getpid() % 2**32)
    return [b.numpy.random.standard_normal(8)]


def uninitialised(b):
    dirty = [b.numpy.full(24, float(os.getpid() + number)) for number in range(50)]
    del dirty
    return [b.numpy.empty(24)]


def dying(b):
    os.kill(os.getpid(), signal.SIGSEGV)


PLANTED = {
    "numpy_sums": racing, "numpy_gram": racing_ahead, "numpy_draw_global": unseeded, "numpy_draw_seeded": forgetful,
    "numpy_moments": uninitialised, "numpy_fft": dying,
}  # fmt: skip
for name, function in PLANTED.items():
    bench.PROBES[name].function = function

if __name__ == "__main__":
    sys.exit(child.main(sys.argv[1:]))
