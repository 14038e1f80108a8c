"""A runner that disturbs a command.

    python -I -S disturb.py NAME -- CMD [ARG...]

The names are those of `DISTURBANCES`. This process becomes the command, and helpers of the disturbance end with it. The
exit code is 125 if the disturbance is not possible here, with a line on stderr.
"""

# ruff: noqa: TID251  the environment is what it changes

import hashlib
import os
import sys
import time

sys.dont_write_bytecode = True  # leave no trace in the container
_HERE = os.path.dirname(os.path.abspath(__file__))
if sys.path and os.path.abspath(sys.path[0]) == _HERE:  # run by its path: our file names must hide no module
    del sys.path[0]
sys.path.insert(0, os.path.dirname(os.path.dirname(_HERE)))

from reprobuild_runtime import disturbed, supervise  # noqa: E402  after the path
from reprobuild_runtime.settings import print_line  # noqa: E402  after the path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, List

NOT_POSSIBLE = 125
THREADS = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS", "NUMEXPR_NUM_THREADS",
    "RAYON_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "POLARS_MAX_THREADS",
)  # fmt: skip
HASH_SEED = 2718281828
MOST_MEMORY = 2 << 30  # bytes
MOST_SECONDS = 24 * 3600  # of a helper


class NotPossibleError(Exception):
    """The disturbance cannot be made here."""


def change_threads() -> None:
    """Halve the number of threads of numerical libraries; one becomes two."""
    text = os.environ.get(THREADS[0], "")
    threads = int(text) if text.isdigit() and int(text) else len(os.sched_getaffinity(0))
    for name in THREADS:
        os.environ[name] = str(threads // 2 if threads > 1 else 2)


def halve_processors() -> None:
    """Leave half of the processors.

    Raises:
        NotPossibleError: there is only one.
    """
    processors = sorted(os.sched_getaffinity(0))
    if len(processors) < 2:
        raise NotPossibleError("the container has one processor")
    os.sched_setaffinity(0, processors[: len(processors) // 2])


def load_processors() -> None:
    """Keep each processor busy."""
    for _ in range(len(os.sched_getaffinity(0))):
        _start_helper(lambda: None, _compute)


def _compute() -> None:
    block = bytes(1 << 20)
    ends = time.monotonic() + 0.05
    while time.monotonic() < ends:
        hashlib.sha256(block).digest()


def hold_memory() -> None:
    """Hold a quarter of the available memory, up to `MOST_MEMORY`."""
    memory: "List[bytearray]" = []
    size = min(_available_memory() // 4, MOST_MEMORY)
    _start_helper(lambda: memory.append(bytearray(b"\1") * size), lambda: time.sleep(0.05))


def _available_memory() -> int:
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    raise NotPossibleError("the kernel does not state the available memory")


def _start_helper(prepare: "Callable[[], None]", step: "Callable[[], None]") -> None:
    """Start a process that repeats a step until this process, which becomes the command, has ended."""
    command = os.getpid()
    ready, done = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.fork() == 0:  # a child of process 1: the command must meet no child that it did not start
                prepare()
                null = os.open(os.devnull, os.O_RDWR)
                for number in (0, 1, 2):
                    os.dup2(null, number)
                os.write(done, b"+")
                os.close(done)
                _repeat(step, command)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(done)
    if not os.read(ready, 1):
        raise NotPossibleError("a helper of the disturbance failed")
    os.close(ready)


def _repeat(step: "Callable[[], None]", command: int) -> None:
    ends = time.monotonic() + MOST_SECONDS
    while time.monotonic() < ends:
        try:
            os.kill(command, 0)
        except ProcessLookupError:
            return
        step()


def change_hash_seed() -> None:
    """Choose another order of hashes."""
    os.environ["PYTHONHASHSEED"] = str(HASH_SEED)


def change_directory_order() -> None:
    """Let Python's programs list directories in another order."""
    os.environ[disturbed.VARIABLE] = disturbed.DIRECTORY_ORDER


def change_clock() -> None:
    """Let Python's programs read another date."""
    os.environ[disturbed.VARIABLE] = disturbed.CLOCK


DISTURBANCES = {
    "threads": change_threads,
    "processors": halve_processors,
    "load": load_processors,
    "memory": hold_memory,
    "hash-seed": change_hash_seed,
    "directory-order": change_directory_order,
    "clock": change_clock,
}


def main(argv: "List[str]") -> int:
    """Disturb this process, and become the command."""
    try:
        DISTURBANCES[argv[0]]()
    except (NotPossibleError, OSError) as err:
        print_line(f"reprobuild: not possible: {err}")
        return NOT_POSSIBLE
    return supervise.replace_process(argv[argv.index("--") + 1 :])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
