"""The planted faults: what `trace` must say about each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
FOLDER = HERE / "faults"


@dataclass(frozen=True)
class Planted:
    """A fault: its class, the text of its place, and words of its subject."""

    name: str
    kind: str
    place: str
    subject: str = ""


# Pure Python, of tests/determinism/faults: the line at which the difference begins.
SCRIPTS = (
    Planted("dropped_seed", "host code", "subprocess.run"),
    Planted("urandom_seed", "generator", "os.urandom"),
    Planted("time_seeded_shuffle", "generator", "time.time_ns"),
    Planted("system_random", "generator", "SystemRandom"),
    Planted("secrets_augmentation", "generator", "secrets.randbelow"),
    Planted("uuid_split", "generator", "uuid.uuid4"),
    Planted("id_order", "host code", "id(sample)"),
    Planted("address_in_hash", "generator", "hash(object())"),
    Planted("hash_order_isolated", "host code", "subprocess.run"),
    Planted("host_name_seed", "host code", "socket.gethostname"),
    Planted("random_port_seed", "host code", "getsockname"),
    Planted("library_reseeds", "generator", "random.shuffle"),
    Planted("as_completed", "host code", "as_completed"),
    Planted("imap_unordered", "host code", "imap_unordered"),
    Planted("two_producers", "host code", "queue.get"),
    Planted("shared_memory_race", "host code", "shared.value"),
    Planted("wall_clock_schedule", "host code", "time.perf_counter"),
    Planted("mtime_order", "data order", "os.scandir"),
    Planted("listing_order", "data order", "os.listdir"),
    Planted("resume_without_rng", "generator", "time.time_ns"),
    Planted("set_of_objects", "host code", "parameters = {"),
    Planted("time_budget", "host code", "time.perf_counter"),
    Planted("threads_by_load", "host code", "MemAvailable"),
    Planted("temporary_names", "generator", "uuid.uuid4"),
    Planted("async_order", "host code", "await "),
    Planted("autotune_by_timing", "host code", "time.perf_counter_ns"),
    Planted("garbage_time", "host code", "while not gone"),
)
# Of the same directory: scripts that need NumPy or PyTorch, and a race that the record of lines hides.
IN_CONTAINERS = (
    Planted("uninitialised_memory", "uninitialised memory", "numpy.empty"),
    Planted("generator_seed", "generator", "generator.seed()"),
    Planted("loader_reseeds", "generator", "DataLoader("),
    Planted("atomic_addition", "kernel", "index_put_", "aten.index_put"),
    Planted("hogwild", "host code", "weight", "a value that threads share"),
    Planted("torn_checkpoint", "host code", "copies", "a value that threads share"),
    Planted("half_checkpoint", "host code", "writer.terminate()", "a process that a signal ends"),
)
# One operation each, of tests/tracing/faults.
OPERATIONS = (
    Planted("index_put", "kernel", "index_put((INDEX,)", "aten.index_put"),
    Planted("put", "kernel", "put_(INDEX", "aten.put_"),
    Planted("indexing_backward", "kernel", "table[(INDEX,)]", "aten.index_put"),
    Planted("scatter_by_threads", "kernel", "scatter_sum(", "planted.scatter_sum"),
    Planted("index_add_in_any_order", "kernel", "index_add(", "planted.index_add"),
    Planted("autotune_flip", "autotuning", "tuned_sum(", "planted.tuned_sum"),
    Planted("empty", "uninitialised memory", "torch.empty"),
    Planted("partly_written", "uninitialised memory", "new_empty"),
    Planted("added_to_empty", "uninitialised memory", "empty_like"),
    Planted("completion_order_sum", "host code", "as_completed"),
    Planted("pointer", "host code", "ctypes.memset"),
    Planted("numpy_bypass", "host code", "time.time()"),
    Planted("view_of_alias", "host code", "time.perf_counter"),
    Planted("loader_worker", "data order", "next(BATCHES)"),
    Planted("sampler", "generator", "time.time_ns"),
    Planted("reseeded", "generator", "torch.manual_seed"),
    Planted("own_generator", "generator", "GENERATOR"),
    Planted("numpy_seed", "generator", "numpy.random.seed"),
    Planted("branch_on_time", "host code", "time.time_ns"),
    Planted("rate_by_time", "host code", "time.time()"),
    Planted("collective", "generator", "os.urandom"),
    Planted("compiled", "kernel", "", "planted.sum"),
)
