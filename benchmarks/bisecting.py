"""The cost of a bisection beside its command: set-up of a trial, the whole search, memory and disk.

A is the example's lock. B has other values of many variables, and one more line in a source. The command is a Python
that exits by one variable, so that nearly all of the time is the tool's own. The search is a whole process in a copy of
the filled store; the command alone runs in the same image, by `reprobuild run`.
"""

from __future__ import annotations

import json
import shutil
import statistics
import uuid
from pathlib import Path

import msgspec

from benchmarks.change import changed_source
from benchmarks.measure import PROGRAM, Figure, NotRunError, peak_of, spread, time_process
from benchmarks.native import LOCK, copy_store
from reprobuild.lock.file import read_lock, write_lock
from reprobuild.lock.model import Lock, unseal
from reprobuild.lock.system import EnvVar
from reprobuild.store.store import Store

VARIABLES = 63  # and one line of a source
LIMIT_SETUP = 3.0  # seconds
LIMIT_MEMORY = 512.0  # MiB
MODULES = (
    "reprobuild/bisect",
    "reprobuild/pipeline/trial_image",
    "reprobuild/pipeline/locked_side",
    "reprobuild/builders/native",
    "reprobuild/engines",
    "reprobuild/image",
    "reprobuild/realise",
)
_COMMAND = ("python", "-c", f"import os, sys; sys.exit(int(os.environ['BISECT_{VARIABLES // 2}']))")


def measure(store: Path, results: Path, folder: Path, rounds: int) -> list[Figure]:
    """Return the figures of a bisection.

    Args:
        store: filled, with all files of the lock of `results`; only read.
        results: an output directory of `from-snapshot` or `build`; only read.
        folder: on the file system of the store, so that copies are hard links; it is left clean.
        rounds: the number of runs of the command alone.

    Raises:
        NotRunError: a filled store is missing.
    """
    if not (results / LOCK).is_file() or not (store / "made").is_dir():
        raise NotRunError("there is no filled store; `make demo` fills one")
    scratch = folder / f"bisecting-{uuid.uuid4().hex[:8]}"
    scratch.mkdir(parents=True)
    try:
        copy_store(store, scratch / "store")
        return _figures(read_lock(results / LOCK), results, scratch, rounds)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def make_sides(lock: Lock, store: Store) -> tuple[Lock, Lock]:
    """Return A and B: a line of a source and many variables differ."""
    sides = []
    for value, side in (("0", unseal(lock)), ("1", changed_source(lock, store, 1))):
        added = tuple(EnvVar(name=f"BISECT_{number}", value=value) for number in range(VARIABLES))
        sides.append(msgspec.structs.replace(side, environment=(*side.environment, *added)))
    return sides[0], sides[1]


def _figures(lock: Lock, results: Path, scratch: Path, rounds: int) -> list[Figure]:
    store = Store(scratch / "store")
    paths = [scratch / "a.lock", scratch / "b.lock"]
    for path, side in zip(paths, make_sides(lock, store), strict=True):
        write_lock(side, path)
    engine = ("--engine", "builtin")
    options = (*engine, "--store", str(store.root), "--offline", "--json")
    search = [*PROGRAM, "bisect", *map(str, paths), *options, "--", *_COMMAND]
    before = _bytes(store)
    memory, seconds, output = peak_of(search)
    added = _bytes(store) - before
    result = json.loads(output)
    run = [*PROGRAM, "run", str(results), *engine, "--", "python", "-c", ""]
    alone = [time_process(run).wall for _ in range(1 + rounds)][1:]
    setups = [trial["setup"] for trial in result["trials"]]
    about = {
        "differences": len(result["differences"]), "runs": result["runs"], "seconds": round(seconds, 1),
        "bytes added to the store": added,
    }  # fmt: skip
    return [
        Figure("set-up of a trial", statistics.median(setups), "s", "-", LIMIT_SETUP, MODULES, spread(setups)),
        Figure(
            "bisection of 64 differences", seconds / (result["runs"] * statistics.median(alone)), "x",
            "as many processes of `reprobuild run`", None, MODULES, {**about, "run": spread(alone)},
        ),
        Figure("memory of a bisection", memory / 1024, "MiB", "-", LIMIT_MEMORY, MODULES),
    ]  # fmt: skip


def _bytes(store: Store) -> int:
    return sum(path.stat().st_size for path in (store.root / "blobs").glob("*/*"))
