"""Draws from every generator, for the table of docs/seeds.md.

They are made in this process and in children of every start method.

    PYTHON seed_draws.py FILE [STARTS]      writes {start: [{generator: value}, ...]}; with ranks to FILE.RANK

It runs under the examined interpreter and launcher, with torch and NumPy, and joblib if loky is asked for.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

STARTS = (
    "main", "fork", "spawn", "forkserver", "subprocess", "subprocess with env={}", "thread", "joblib (loky)",
    "DataLoader worker",
)  # fmt: skip


def draw(with_torch: bool = True) -> dict[str, Any]:
    """Return a value of each generator.

    torch is left out if it is not loaded yet and another child has its value.
    """
    import random
    import uuid

    import numpy as np

    temporary: Any = tempfile
    found: dict[str, Any] = {
        "`random`": random.random(),
        "`random.Random()`": random.Random().random(),
        "NumPy's global": float(np.random.random()),
        "`default_rng()`": float(np.random.default_rng().random()),
        "`RandomState()`": float(np.random.RandomState().random_sample()),
        "hash order": hash("reprobuild"),
        "`os.urandom`": os.urandom(8).hex(),
        "`uuid.uuid4`": str(uuid.uuid4()),
        "names of `tempfile`": next(temporary._get_candidate_names()),
    }
    if with_torch:
        import torch

        found["torch, CPU"] = float(torch.rand(1))
        found["`torch.Generator()`"] = float(torch.rand(1, generator=torch.Generator()))
    return found


def _tell(queue: Any, number: int) -> None:
    queue.put((number, draw((number == 0 and first_rank()) or "torch" in sys.modules)))


def first_rank() -> bool:
    """Return whether this is the only rank, or the first.

    The other ranks' children leave torch out.
    """
    return os.environ.get("RANK", "0") == "0"


def _processes(method: str) -> list[dict[str, Any]]:
    context: Any = multiprocessing.get_context(method)
    queue, found = context.Queue(), {}
    for number in range(2):
        process = context.Process(target=_tell, args=(queue, number))
        process.start()
        key, value = queue.get(timeout=120)
        found[key] = value
        process.join()
    return [found[0], found[1]]


def _subprocesses(env: Mapping[str, str] | None) -> list[dict[str, Any]]:
    """Draw in one child.

    Another would be the same program from the same seed.
    """
    torch = "torch" if first_rank() else "no torch"
    argv = [sys.executable, str(Path(__file__).resolve()), "-", torch]
    return [json.loads(subprocess.run(argv, env=env, stdout=subprocess.PIPE, check=True).stdout)]


def _threads() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for _ in range(2):  # one after the other: threads share the global generators
        thread = threading.Thread(target=lambda: found.append(draw()))
        thread.start()
        thread.join()
    return found


def _one_of_two(folder: str) -> tuple[int, dict[str, Any]]:
    """Draw after the other worker has started.

    Each of the two so draws once.
    """
    process: Any = multiprocessing.current_process()
    number: int = process._identity[-1]
    (Path(folder) / str(number)).touch()
    while len(list(Path(folder).iterdir())) < 2:
        time.sleep(0.01)
    return number, draw(number == 1 and first_rank())


def _loky() -> list[dict[str, Any]]:
    import joblib

    with tempfile.TemporaryDirectory() as folder:
        tasks = (joblib.delayed(_one_of_two)(folder) for _ in range(2))
        return [value for _, value in sorted(joblib.Parallel(n_jobs=2)(tasks), key=lambda pair: pair[0])]


class _Items:
    """A dataset whose items are draws."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> dict[str, Any]:
        return draw()


def _loader() -> list[dict[str, Any]]:
    from torch.utils.data import DataLoader

    return list(DataLoader(_Items(), batch_size=None, num_workers=2, multiprocessing_context="fork"))


def all_draws(starts: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """Return the values of each start method asked for."""
    ways = {
        "main": lambda: [draw()],
        "fork": lambda: _processes("fork"),
        "spawn": lambda: _processes("spawn"),
        "forkserver": lambda: _processes("forkserver"),
        "subprocess": lambda: _subprocesses(None),
        "subprocess with env={}": lambda: _subprocesses({}),
        "thread": _threads,
        "joblib (loky)": _loky,
        "DataLoader worker": _loader,
    }
    return {start: ways[start]() for start in starts}


if __name__ == "__main__":
    if sys.argv[1] == "-":
        print(json.dumps(draw(sys.argv[2] == "torch")))
    else:
        rank = os.environ.get("RANK")
        found = all_draws(sys.argv[2:] or STARTS)
        Path(sys.argv[1] + ("" if rank is None else "." + rank)).write_text(json.dumps(found))
