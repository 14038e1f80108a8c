"""Regressions that others published: the guilty package among all differences of two locks a year apart."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

# An ordinary environment; uv chooses its versions as of a day.
NAMES = (
    "jinja2", "matplotlib", "networkx", "pandas", "pillow", "requests", "scikit-learn", "scipy", "seaborn",
    "statsmodels", "sympy", "tqdm",
)  # fmt: skip
PYTHON = "3.11"


class Regression(Struct, frozen=True, kw_only=True):
    """A change of results between two releases of a package.

    Attributes:
        package: the guilty one.
        source: the public report.
        days: of the two locks.
        script: shows the change.
        options: of `bisect`: how results are compared.
    """

    package: str
    source: str
    days: tuple[str, str]
    script: str
    options: tuple[str, ...] = ()


CASES = (
    Regression(
        package="pandas", source="https://github.com/pandas-dev/pandas/issues/57010", days=("2023-02-10", "2024-02-10"),
        script=(
            "import pandas\n"
            "first = pandas.DataFrame({'key': list('aceace'), 'left': range(6), 'group': list('aaabbb')})\n"
            "second = pandas.DataFrame({'key': list('bcd'), 'right': range(3)})\n"
            "pandas.merge_ordered(first, second, fill_method='ffill', left_by='group', how='left')\n"
        ),
    ),
    Regression(
        package="numpy", source="https://github.com/numpy/numpy/issues/26738", days=("2023-07-10", "2024-07-10"),
        script=(
            "import numpy, sys\n"
            "sys.exit(numpy.unique([[1, 2], [3, 4], [1, 2]], axis=0, return_inverse=True)[1].ndim)\n"
        ),
    ),
    Regression(
        package="scikit-learn", source="https://github.com/scikit-learn/scikit-learn/issues/25022",
        days=("2023-03-01", "2024-03-01"), options=("--metric", "inertia=([0-9.]+)", "--tolerance", "1e-6"),
        script=(
            "import random\nfrom sklearn.cluster import KMeans\n"
            "rng = random.Random(0)\n"
            "points = [[rng.random() for _ in range(4)] for _ in range(500)]\n"
            "print('inertia=%.9f' % KMeans(n_clusters=20, random_state=0).fit(points).inertia_)\n"
        ),
    ),
)  # fmt: skip


def measure(work: Path, store: Path, cases: Sequence[Regression] = CASES) -> list[dict[str, Any]]:
    """Return the facts of each case; finished ones are kept in `work`."""
    found = []
    for case in cases:
        path = work / f"{case.package}.json"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(_measure_one(case, work / case.package, store)))
        found.append(json.loads(path.read_bytes()))
    return found


def _measure_one(case: Regression, work: Path, store: Path) -> dict[str, Any]:
    locks = [str(_lock(day, work / day, store)) for day in case.days]
    options = ("--store", str(store), "--engine", "builtin", *case.options)
    argv = (*_program(), "bisect", *locks, *options, "--json", "--", "python", "-c", case.script)
    result = json.loads(subprocess.run(argv, stdout=subprocess.PIPE, check=False).stdout)
    differences, guilty = result["differences"], result["guilty"]
    required = dict(result["required"])
    return {
        "package": case.package, "source": case.source, "days": case.days, "differences": len(differences),
        "guilty": [
            f"{differences[number]['name']} {differences[number]['first']} -> {differences[number]['second']}"
            for number in guilty
        ],
        "required": [differences[number]["name"] for number in required],
        "right": [differences[number]["name"] for number in guilty if number not in required]
        == [case.package] and result["forward"] == "B" and result["backward"] == "A",
        "runs": result["runs"], "seconds": round(result["seconds"]),
        "untestable": sum(trial["answer"] == "untestable" for trial in result["trials"]),
    }  # fmt: skip


def _lock(day: str, folder: Path, store: Path) -> Path:
    """Lock the names as of a day."""
    folder.mkdir(parents=True, exist_ok=True)
    requirements, lock = folder / "requirements.txt", folder / "reprobuild.lock"
    uv = (
        sys.executable,
        "-m",
        "uv",
        "pip",
        "compile",
        "--quiet",
        "--python-version",
        PYTHON,
        "--no-header",
        "--no-annotate",
    )
    subprocess.run(
        (*uv, "--exclude-newer", day, "-", "-o", requirements), input="\n".join(NAMES), text=True, check=True
    )
    argv = (
        *_program(), "lock", str(requirements), "--python", PYTHON, "--accept", "no-apt-list", "-o", str(lock),
        "--store", str(store),
    )  # fmt: skip
    subprocess.run(argv, check=True)
    return lock


def _program() -> tuple[str, ...]:
    return sys.executable, "-m", "reprobuild.cli"
