"""Versions as of a date: environments locked by uv, and recovered from their top-level names and the date.

uv locks each list of names with all its requirements, as of a date. reprobuild gets the names and the date, and chooses
the versions again, for the Python and the platform of an image.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from reprobuild.config.overrides import Decisions
from reprobuild.ecosystems.pypi.indexes import PackageIndexes, read_indexes
from reprobuild.infra.http.client import Net
from reprobuild.resolve.as_of import solve_open_lines
from reprobuild.resolve.as_of_moment import parse_moment
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.python.context import make_file_lists
from reprobuild.snapshot.model import Snapshot
from reprobuild.snapshot.parsers import pip_freeze
from reprobuild.store.store import Store

MODULES = ("reprobuild/resolve/as_of", "reprobuild/resolve/ages")
GOAL = 0.95  # of all versions
MACHINE = "x86_64"
# The Python that a new environment had in the year.
PYTHONS = {2021: "3.8.10", 2022: "3.9.13", 2023: "3.10.12", 2024: "3.11.9", 2025: "3.12.10", 2026: "3.12.12"}
_STACKS = {
    "vision": "torch torchvision timm pillow",
    "language": "transformers datasets tokenizers accelerate",
    "lightning": "pytorch-lightning torchmetrics hydra-core",
    "tabular": "scikit-learn pandas xgboost lightgbm",
    "graphs": "networkx scipy matplotlib seaborn",
    "jax": "jax jaxlib flax optax",
    "service": "fastapi uvicorn pydantic httpx",
    "notebook": "jupyterlab ipywidgets plotly",
}
_DATES = ("2021-06-15", "2022-05-01", "2023-08-20", "2024-11-05", "2025-09-10", "2026-03-01")
CASES = tuple((name, names.split(), date) for name, names in _STACKS.items() for date in _DATES)


def measure(work: Path, cases: Iterable[tuple[str, Sequence[str], str]] = CASES) -> list[dict[str, Any]]:
    """Return the facts of each environment."""
    found = []
    for name, names, date in cases:
        found.append(_measure_one(name, names, date, work))
        print(found[-1], file=sys.stderr, flush=True)
    return found


def _measure_one(name: str, names: Sequence[str], date: str, work: Path) -> dict[str, Any]:
    python = PYTHONS[int(date[:4])]
    began = time.monotonic()
    try:
        locked = lock_by_uv(names, date, python)
    except subprocess.CalledProcessError as err:  # there was no such environment
        why = err.stderr.splitlines()[:1]
        return {"name": name, "date": date, "python": python, "versions": 0, "wrong": [], "not lockable": why,
                "seconds of uv": 0, "seconds": 0}  # fmt: skip
    middle = time.monotonic()
    chosen = recover(names, date, python, context_of(work, read_indexes(os.environ)))
    ended = time.monotonic()
    return {
        "name": name, "date": date, "python": python, "versions": len(locked), "wrong": differences(locked, chosen),
        "seconds of uv": round(middle - began, 1), "seconds": round(ended - middle, 1),
    }  # fmt: skip


def context_of(work: Path, indexes: PackageIndexes, now: int = 0) -> ResolveContext:
    """Return the context of a resolution with a store of its own."""
    return ResolveContext(
        store=Store(work / "as-of"), net=Net(), env=dict(os.environ), folder=work, now=now, say=lambda _: None,
        indexes=indexes,
    )  # fmt: skip


def recover(
    names: Sequence[str], date: str, python: str, context: ResolveContext
) -> Mapping[str, str | None]:
    """Return the versions that reprobuild chooses for names and a date."""
    lines, _ = pip_freeze.parse("".join(f"{name}\n" for name in names).encode())
    solved = solve_open_lines(
        Snapshot(digest="", requirements=lines),
        Decisions(as_of=date),
        python,
        MACHINE,
        make_file_lists(Decisions(), context.services, context),
        context,
    )
    return {str(canonicalize_name(line.name)): line.version for line in solved.snapshot.requirements}


def differences(locked: Mapping[str, str], chosen: Mapping[str, str | None]) -> list[str]:
    """Return each distribution whose version is another one."""
    return sorted(f"{key}: {locked.get(key)}, and {chosen.get(key)}" for key in {*locked, *chosen}
                  if locked.get(key) != chosen.get(key))  # fmt: skip


def lock_by_uv(names: Sequence[str], date: str, python: str) -> Mapping[str, str]:
    """Return what uv itself chooses for this machine, by canonical name."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "requirements.in"
        file.write_text("".join(f"{name}\n" for name in names))
        argv = [
            sys.executable, "-m", "uv", "pip", "compile", str(file), "--exclude-newer", parse_moment(date),
            "--python-version", python, "--no-header", "--no-annotate", "--no-cache", "--quiet",
        ]  # fmt: skip
        done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=folder)
    pins = (row.split("==") for row in done.stdout.splitlines() if "==" in row)
    return {str(canonicalize_name(name.strip())): version.split(" ")[0] for name, version in pins}


def share(found: Iterable[Mapping[str, Any]]) -> float:
    """Return the share of versions that were recovered."""
    rows = list(found)
    wrong, versions = sum(len(row["wrong"]) for row in rows), sum(int(row["versions"]) for row in rows)
    return 1 - wrong / max(1, versions)


def held(found: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether enough versions were recovered, in at most one and a half times uv's own time."""
    ours, theirs = sum(row["seconds"] for row in found), sum(row["seconds of uv"] for row in found)
    return share(found) >= GOAL and ours <= 1.5 * theirs
