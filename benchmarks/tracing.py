"""The overhead of a traced run: the processor time of a step with a recorder, against the same step without.

Ten small trainings run outside of a container, on one thread. The steps begin after those in which the recorder chooses
its stride; `details` has the stride, so that a figure of too few strides is seen.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
from pathlib import Path

from msgspec.json import encode

from benchmarks.measure import ROOT, Figure, NotRunError, spread
from reprobuild.trace.log import read_logs
from tests.torch_environment import make_torch_environment

NAMES = (
    "mlp", "cnn", "transformer", "rnn", "diffusion", "graph", "sparse", "compiled", "loader", "numpy",
)  # fmt: skip
MODULES = ("reprobuild_runtime/trace",)
LIMITS = {"steps": 1.01, "operations": 1.5}
FIRST = 8  # steps that are not measured
STEPS = {"steps": 64, "operations": 6}
PAIRS = 5


def measure(results: Path, folder: Path, pairs: int = PAIRS) -> list[Figure]:
    """Return the figures of both levels for each training.

    Raises:
        NotRunError: there are no results of `make demo`.
    """
    if not (results / "context").is_dir():
        raise NotRunError(f"there are no results in {results}; `make demo` makes them")
    made = folder / "torch-traced"
    shutil.rmtree(made, ignore_errors=True)
    python = make_torch_environment(results / "context", made)
    try:
        return [_figure(python, made / "logs", name, level, pairs) for level in LIMITS for name in NAMES]
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _figure(python: Path, logs: Path, name: str, level: str, pairs: int) -> Figure:
    traced: list[float] = []
    plain: list[float] = []
    for turn in range(pairs):
        for with_trace in (True, False) if turn % 2 else (False, True):
            if with_trace:
                shutil.rmtree(logs, ignore_errors=True)
            seconds = _run(python, logs if with_trace else None, name, level)
            (traced if with_trace else plain).append(seconds)
    details = {
        "traced": spread(traced), "plain": spread(plain), "median of the pairs' ratios":
        round(statistics.median(a / b for a, b in zip(traced, plain, strict=True)), 4),
        **_describe_log(logs, STEPS[level]),
    }  # fmt: skip
    return Figure(
        f"trace of {level}: {name}", statistics.median(traced) / statistics.median(plain), "x",
        "the same steps without a trace", LIMITS[level], MODULES, details,
    )  # fmt: skip


def _describe_log(folder: Path, steps: int) -> dict[str, int]:
    """Return the bytes of the log in each measured step, and the stride of the recorder."""
    (log,) = read_logs(folder).values()
    strides = [
        record.seconds for step in range(FIRST) for record in log.records(step) if record.kind == "stride"
    ]
    size = sum(len(encode(record)) for step in range(FIRST, FIRST + steps) for record in log.records(step))
    return {"bytes of the log per step": round(size / steps), "stride": round(strides[0]) if strides else 0}


def _run(python: Path, logs: Path | None, name: str, level: str) -> float:
    """Return the seconds of a step, of the processor."""
    env = {
        "PATH": os.environ["PATH"], "REPROBUILD_SEED": "7", "PYTHONHASHSEED": "7", "REPROBUILD_RECORD": "0",
        "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    if logs is not None:
        window = {"first": FIRST, "last": FIRST + STEPS[level] - 1} if level == "operations" else {}
        env["REPROBUILD_TRACE"] = json.dumps({"folder": str(logs), **window})
    program = ROOT / "benchmarks" / "traced_steps.py"
    done = subprocess.run(
        [python, program, name, str(FIRST), str(STEPS[level])],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{name} exited {done.returncode}:\n{done.stderr[-2000:]}")
    return float(done.stdout.splitlines()[-1])
