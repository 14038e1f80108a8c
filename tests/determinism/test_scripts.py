"""Scripts that must be called drift and scripts that must not, run twice and judged as `verify --workload` does it.

Each script writes the log of a framework, in real time. Without a fault its results are always the same. With one, one
of its results is drawn anew in each run, and nothing else.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reprobuild.verify.verdict import WorkComparison
from reprobuild.verify.workload.run import compare_work
from reprobuild.verify.workload.work import work_of_options
from tests.determinism.plain_engine import PlainEngine
from tests.determinism.scripts.program import FORMATS

PROGRAM = Path(__file__).parent / "scripts" / "program.py"
NAMES = [each.__name__ for each in FORMATS]
AT_ONCE = 6  # the scripts sleep most of the time
QUICK = NAMES[2::4]
PARAMETERS = [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in NAMES]


def judged(name: str, fault: int) -> WorkComparison:
    """Run a script twice, more than a second apart, and compare what it wrote."""
    line = f"sleep 1.1; {shlex.quote(sys.executable)} {shlex.quote(str(PROGRAM))} {name} {{out}} {fault}"
    work = work_of_options(line, ("{out}",), (), ())
    assert work
    (found,) = compare_work(work, 42, "", PlainEngine(), os.environ).comparisons
    return found


def results(name: str, folder: Path) -> int:
    """Return how many results a script has."""
    subprocess.run([sys.executable, str(PROGRAM), name, str(folder), "count"], check=True)
    return int((folder / "count").read_text())


@pytest.fixture(scope="module")
def names(pytestconfig: pytest.Config) -> list[str]:
    """The scripts of this run."""
    return [name for name in NAMES if (name not in QUICK) == pytestconfig.getoption("--long")]


@pytest.fixture(scope="module")
def counts(names: list[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    return {name: results(name, tmp_path_factory.mktemp(name)) for name in names}


@pytest.fixture(scope="module")
def clean(names: list[str]) -> dict[str, WorkComparison]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(names, pool.map(lambda name: judged(name, 0), names), strict=True))


@pytest.fixture(scope="module")
def faulty(names: list[str], counts: dict[str, int]) -> dict[tuple[str, int], WorkComparison]:
    """What is said of each script with its first result drawn, and with its last one."""
    todo = [(name, fault) for name in names for fault in sorted({1, counts[name]})]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(todo, pool.map(lambda each: judged(*each), todo), strict=True))


def test_there_are_enough() -> None:
    assert len(NAMES) == len(set(NAMES)) >= 40


@pytest.mark.parametrize("name", PARAMETERS)
def test_other_times_are_no_drift(name: str, clean: dict[str, WorkComparison]) -> None:
    found = clean[name]
    assert found.verdict == "identical", found


@pytest.mark.parametrize("name", PARAMETERS)
def test_other_results_are_drift(
    name: str, faulty: dict[tuple[str, int], WorkComparison], counts: dict[str, int]
) -> None:
    for fault in {1, counts[name]}:
        found = faulty[name, fault]
        assert found.verdict == "drift", (fault, found)
