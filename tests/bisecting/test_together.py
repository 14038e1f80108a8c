"""Trials at the same time: the same answer in fewer rounds, and nothing runs on after an end."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from reprobuild.bisect.search import Answer, Chosen, search
from reprobuild.bisect.sides import read_judging
from reprobuild.bisect.together import Crew, plan_tests, search_together
from reprobuild.errors import UsageError
from reprobuild.infra.cancel import CancelToken
from reprobuild.lock.file import write_lock
from tests.bisecting.small import PROLOGUE, Bench, guilty_names
from tests.bisecting.test_search import RULES, Rule, together
from tests.conftest import PROGRAM


def count_rounds(count: int, test: Callable[[Chosen], Answer], jobs: int) -> int:
    """Return the rounds of a search in which all tests of a round end together."""
    answers: dict[Chosen, Answer] = {}
    rounds = 0
    while plan := plan_tests(count, answers, (), jobs):
        assert len(plan) <= jobs
        answers |= {chosen: test(chosen) for chosen in plan}
        rounds += 1
    return rounds


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("jobs", [2, 3, 8])
def test_the_result_is_that_of_one_at_a_time(rule: Rule, jobs: int) -> None:
    rng = random.Random(jobs)
    for _ in range(12):
        count = rng.randint(2, 60)
        guilty = frozenset(rng.sample(range(count), min(count, rng.randint(1, 3))))
        broken = frozenset(rng.sample(range(count), 2))

        def test(
            chosen: Chosen, _: int = 0, guilty: Chosen = guilty, broken: Chosen = broken, rule: Rule = rule
        ) -> Answer:
            return "untestable" if len(broken & chosen) == 1 and not broken & guilty else rule(chosen, guilty)

        needs = [set[int]() if number % 7 else {(number + 1) % count} - {number} for number in range(count)]
        saves: list[int] = []
        with Crew(jobs, CancelToken()) as crew:
            result = search_together(count, test, needs, crew, partial(saves.append, 1))
        assert result == search(count, test, needs)
        assert len(saves) >= len(result.trials)


def test_the_rounds_are_fewer() -> None:
    """Three at a time halve the levels of the binary search, seven take a third."""
    rng, rounds = random.Random(4), {1: 0, 2: 0, 3: 0, 7: 0}
    for _ in range(20):
        guilty = frozenset([rng.randrange(256)])
        for jobs in rounds:
            rounds[jobs] += count_rounds(256, partial(together, guilty=guilty), jobs)
    assert rounds[2] <= 0.8 * rounds[1]
    assert rounds[3] <= 0.6 * rounds[1]
    assert rounds[7] <= 0.45 * rounds[1]


def test_no_more_run_at_the_same_time_than_allowed() -> None:
    places: list[int] = []
    guard = threading.Lock()

    def test(chosen: Chosen, place: int) -> Answer:
        with guard:
            assert place not in places
            places.append(place)
        time.sleep(0.002)
        with guard:
            places.remove(place)
        return together(chosen, frozenset({20, 41}))

    with Crew(3, CancelToken()) as crew:
        assert search_together(64, test, (), crew, lambda: None).guilty == {20, 41}


def test_a_failure_ends_the_others() -> None:
    cancel = CancelToken()

    def test(chosen: Chosen, place: int) -> Answer:
        if place:
            cancel.sleep(600)
        raise OSError("planted")

    with pytest.raises(OSError, match="planted"), Crew(4, cancel) as crew:
        search_together(64, test, (), crew, lambda: None)


def test_noisy_numbers_run_one_at_a_time() -> None:
    with pytest.raises(UsageError, match="disturb each other's number") as error:
        read_judging("x(.)", None, "0", 0.01, (), (), 2)
    assert error.value.hint == "leave --jobs out: trials of a noisy number run one at a time"
    assert read_judging("x(.)", None, "0", 0.01, (), ())[1].error_rate == 0.01


@pytest.mark.skipif(sys.platform != "linux", reason="needs the built-in engine")
def test_real_trials_at_the_same_time(bench: Bench) -> None:
    script = "sys.exit(omp == '4' and 7)"
    result = bench.bisect(script, jobs=3, afresh=True)
    assert guilty_names(result) == {"OMP_NUM_THREADS"}
    assert result.is_proved
    again = bench.bisect(script)  # one at a time: each of its trials is remembered
    assert again.remembered == again.runs
    assert [(trial.differences, trial.answer) for trial in again.trials] == [
        (trial.differences, trial.answer) for trial in result.trials
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="needs the built-in engine")
def test_an_interrupt_ends_all_trials(bench: Bench, tmp_path: Path) -> None:
    """No container goes on, and none of those that the signal ended is remembered."""
    for name, lock in (("a.lock", bench.first), ("b.lock", bench.second)):
        write_lock(lock, tmp_path / name)
    (tmp_path / "log").mkdir()
    mark = f"{time.time_ns()}"
    script = PROLOGUE + (
        "import time\nopen('/log/%d' % time.time_ns(), 'w')\n"
        "time.sleep(0 if os.path.exists('/log/quick') else 300)\nsys.exit(alpha)\n"
    )
    arguments = (
        "bisect", str(tmp_path / "a.lock"), str(tmp_path / "b.lock"), "--json", "--store", str(bench.store),
        "--offline", "--engine", "builtin", "-j", "3", "-v", f"{tmp_path / 'log'}:/log:rw", "--",
        "python", "-c", script, mark,
    )  # fmt: skip
    process = subprocess.Popen([*PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 200
    while (
        len(list((tmp_path / "log").iterdir())) < 3 and process.poll() is None and time.monotonic() < deadline
    ):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=100)
    assert process.returncode == 130, errors
    assert not [path for path in Path("/proc").glob("[1-9]*") if mark.encode() in command_line(path)]
    (tmp_path / "log" / "quick").touch()
    done = subprocess.run([*PROGRAM, *arguments], capture_output=True, check=False)
    document = json.loads(done.stdout)
    assert (done.returncode, document["remembered"]) == (0, 0)
    assert [document["differences"][number]["name"] for number in document["guilty"]] == ["alpha"]


def command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""
