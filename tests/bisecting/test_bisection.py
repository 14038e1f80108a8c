"""Planted causes of each kind, found in real containers and proved in both directions."""

from __future__ import annotations

import time

import msgspec
import pytest

from reprobuild.bisect.bisection import Judging
from reprobuild.bisect.metric import Metric
from reprobuild.bisect.oracle import Tolerance
from reprobuild.bisect.result import render_bisection
from tests.bisecting.small import Bench, guilty_names

# The images seed `random`, even without an argument.
NOISE = "import random; noise = random.Random(os.urandom(8)).gauss(0, 1); "

# By name: a script, and the guilty differences.
PLANTED = {
    "a version": ("sys.exit(alpha)", {"alpha"}),
    "a removed package": ("sys.exit(v('gamma'))", {"gamma"}),
    "an added package": ("sys.exit(v('epsilon'))", {"epsilon"}),
    "a variable": ("sys.exit(int(omp))", {"OMP_NUM_THREADS"}),
    "a new variable": ("sys.exit(int(e('NEW', '0')))", {"NEW"}),
    "a variable that is gone": ("sys.exit(int(e('GONE', '0')))", {"GONE"}),
    "the order of a path": (
        "sys.exit([p for p in sys.path if p.startswith('/src/tool/')][0] > '/src/tool/x')",
        {"PYTHONPATH"},
    ),
    "a preload": ("sys.exit('libm' in e('LD_PRELOAD', ''))", {"LD_PRELOAD"}),
    "the seed": ("sys.exit(int(e('REPROBUILD_SEED')) % 100)", {"seed"}),
    "the profile": ("sys.exit(len(e('REPROBUILD_PROFILE')))", {"profile"}),
    "a file of a source": ("sys.exit(os.path.exists('/src/tool/more.bin'))", {"tool/more.bin"}),
    "a hunk of a file": (
        "sys.path.insert(0, '/src/tool'); import code; sys.exit(code.line14)", {"tool/code.py:15"}
    ),
    "two hunks of a file": (
        "x = open('/src/tool/code.py').read(); sys.exit('early' in x and '92' in x)",
        {"tool/code.py:4", "tool/code.py:30"},
    ),
    "the working directory": ("sys.exit(len(os.getcwd()))", {"workdir"}),
    "the times of files": ("import alpha as m; sys.exit(int(os.stat('/opt/env/bin').st_mtime) % 97)", {"epoch"}),
    "two together": ("sys.exit(alpha == 2 and omp == '4')", {"alpha", "OMP_NUM_THREADS"}),
    "three together": ("sys.exit(alpha == beta == 2 and omp == '4')", {"alpha", "beta", "OMP_NUM_THREADS"}),
    "either of two": ("sys.exit(alpha == 2 or omp == '4')", {"alpha", "OMP_NUM_THREADS"}),
    "one hides another": ("sys.exit(5 if alpha == 2 else omp == '4')", {"alpha", "OMP_NUM_THREADS"}),
    "two that add up": ("sys.exit((alpha == 2) + 2 * (omp == '4'))", {"alpha", "OMP_NUM_THREADS"}),
    "a source and a variable": (
        "sys.exit(open('/src/tool/data.txt').read() == 'two' and 'NEW' in os.environ)", {"tool/data.txt:1", "NEW"}
    ),
    "among untestable mixtures": ("sys.exit(125 if alpha != beta else omp == '4')", {"OMP_NUM_THREADS"}),
}  # fmt: skip


# `make proof PROOF_ARGS=bisect` plants sixty causes; these are of other parts of the search each.
QUICK = {
    "a variable",
    "a version",
    "two hunks of a file",
    "two together",
    "one hides another",
    "among untestable mixtures",
}


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in PLANTED]
)
def test_each_planted_cause_is_found(name: str, bench: Bench) -> None:
    script, guilty = PLANTED[name]
    result = bench.bisect(script)
    assert guilty_names(result) == guilty, render_bisection(result, everything=True)
    assert result.is_proved
    text = render_bisection(result, everything=True)
    assert "A with" in text
    assert "NOT proved" not in text


def test_output_files_are_compared(bench: Bench) -> None:
    script = "import time; open('/reprobuild-out/x.json', 'w').write('{\"v\": %d, \"time\": %f}' % (beta, time.time()))"
    result = bench.bisect(script, artefacts=("{out}/x.json",))
    assert guilty_names(result) == {"beta"}
    assert result.is_proved
    assert result.oracle == "output files"


def test_numbers_are_compared(bench: Bench) -> None:
    script = NOISE + "print('loss=%f' % (alpha + noise / 1000))"
    judging = Judging(tolerance=Tolerance(size=0.01))
    result = bench.bisect(script, judging, metric=Metric(pattern="loss=([0-9.]+)"))
    assert guilty_names(result) == {"alpha"}
    assert result.is_proved


def test_a_number_in_a_file_is_compared(bench: Bench) -> None:
    script = "import json; json.dump({'end': [{'loss': int(omp)}]}, open('/reprobuild-out/m.json', 'w'))"
    result = bench.bisect(script, metric=Metric(pattern="end.0.loss", file="{out}/m.json"))
    assert guilty_names(result) == {"OMP_NUM_THREADS"}


def test_a_noisy_number_is_compared(bench: Bench) -> None:
    script = NOISE + "print('t=%f' % ((12 if omp == '4' else 10) + noise / 10))"
    result = bench.bisect(script, Judging(error_rate=0.01), metric=Metric(pattern="t=([0-9.]+)"))
    assert guilty_names(result) == {"OMP_NUM_THREADS"}
    assert result.is_proved


def test_equal_results_accuse_nothing(bench: Bench) -> None:
    result = bench.bisect("sys.exit(3)")
    assert not result.guilty
    assert result.reason == "A and B give the same result: exit code 3"
    assert result.runs == 4
    assert not result.is_proved


def test_a_side_that_differs_from_itself_accuses_nothing(bench: Bench) -> None:
    script = "sys.exit(os.urandom(1)[0] % 100 + 1 + 100 * (omp == '4'))"
    for _ in range(4):  # two runs have one code by chance in one of a hundred searches
        result = bench.bisect(script, afresh=True)
        if result.reason:
            break
    assert result.reason.startswith("A differs from itself: exit code ")
    assert not result.guilty


def test_noise_alone_accuses_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reprobuild.bisect.oracle.LOOKS", (4, 6))
    script = NOISE + "print('t=%f' % (10 + noise))"
    result = bench.bisect(script, Judging(error_rate=0.01), metric=Metric(pattern="t=([0-9.]+)"))
    assert "cannot be told apart in 6 runs" in result.reason


def test_a_command_without_a_result_accuses_nothing(bench: Bench) -> None:
    result = bench.bisect("sys.exit(125)")
    assert result.reason == "A itself cannot be tested: the command exited 125"


def test_equal_environments_are_not_run(bench: Bench) -> None:
    result = bench.bisect("sys.exit(3)", second=msgspec.structs.replace(bench.first, snapshot="9" * 64))
    assert "no difference that a mixture could have" in result.reason
    assert result.runs == 0


def test_a_second_search_runs_nothing_again(bench: Bench) -> None:
    script = f"sys.exit(alpha + 10)  # {time.time_ns()}"  # no earlier run of the tests had it
    first, second = bench.bisect(script), bench.bisect(script)
    assert first.remembered == 0
    assert second.remembered == second.runs == first.runs
    assert second.guilty == first.guilty
