"""The child of an image without torch with faults in some of its probes, for the tests of those probes."""

import os
import random
import signal
import sys
import threading
import time
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


def entropy_of_tensorflow(b):
    generator = b.package("tensorflow").random.Generator.from_non_deterministic_state()
    return [generator.normal([100]).numpy()]


def late_tensorflow(b):
    """Take the rows of a data set in the order in which threads are done with them."""
    tf = b.package("tensorflow")

    def slow(number):
        wait = tf.py_function(lambda: time.sleep(random.SystemRandom().random() / 500), [], [])
        with tf.control_dependencies([wait]):
            return tf.cast(number, tf.float32) / 3

    rows = tf.data.Dataset.range(64).map(slow, num_parallel_calls=8, deterministic=False)
    return [b.numpy.asarray(list(rows.as_numpy_iterator()))]


PLANTED = {
    "numpy_sums": racing, "numpy_gram": racing_ahead, "numpy_draw_global": unseeded, "numpy_draw_seeded": forgetful,
    "numpy_moments": uninitialised, "numpy_fft": dying,
    "tensorflow_draws": entropy_of_tensorflow, "tensorflow_scatter": late_tensorflow,
}  # fmt: skip
for name, function in PLANTED.items():
    bench.PROBES[name].function = function

if __name__ == "__main__":
    sys.exit(child.main(sys.argv[1:]))
