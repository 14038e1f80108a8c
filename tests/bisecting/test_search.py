"""The search finds each planted set, with few tests: thousands of sets of several kinds."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable
from functools import partial
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprobuild.bisect.ddmin import ddmin
from reprobuild.bisect.search import Answer, Chosen, SearchResult, find_required, rank_weights, search

BASELINE = 4  # A and B are run twice
Rule = Callable[[Chosen, Chosen], Answer]


def together(chosen: Chosen, guilty: Chosen) -> Answer:
    """They act only together."""
    return "B" if guilty <= chosen else "A"


def adding(chosen: Chosen, guilty: Chosen) -> Answer:
    """Each changes the result further."""
    return "A" if not chosen & guilty else "B" if guilty <= chosen else "other"


def any_of(chosen: Chosen, guilty: Chosen) -> Answer:
    """Each has the same effect alone, so that one hides the others."""
    return "B" if chosen & guilty else "A"


def hiding(chosen: Chosen, guilty: Chosen) -> Answer:
    """The first hides what the others do."""
    first = min(guilty)
    return "B" if first in chosen else "other" if chosen & guilty else "A"


RULES = [together, adding, any_of, hiding]


def planted(count: int, size: int, rule: Rule, rng: random.Random) -> tuple[SearchResult, Chosen]:
    guilty = frozenset(rng.sample(range(count), size))
    return search(count, lambda chosen: rule(chosen, guilty)), guilty


@pytest.mark.parametrize("rule", RULES)
def test_each_planted_set_is_found_and_proved(rule: Rule) -> None:
    rng = random.Random(22)
    for _ in range(600):
        count = rng.randint(3, 120)
        result, guilty = planted(count, rng.randint(1, 3), rule, rng)
        assert result.guilty == guilty
        assert result.is_proved


def runs(count: int, size: int, rule: Rule = together, times: int = 150) -> float:
    rng = random.Random(count)
    return statistics.median(len(planted(count, size, rule, rng)[0].trials) + BASELINE for _ in range(times))


def test_one_of_64_takes_12_runs() -> None:
    assert runs(64, 1, times=1000) <= 12


def test_the_runs_grow_with_the_logarithm() -> None:
    for size, most in ((1, 1.2), (2, 2.8), (3, 4.0)):
        medians = [runs(count, size, times=60) for count in (8, 16, 32, 64, 128, 256, 512)]
        assert all(later - earlier <= most + 1 for earlier, later in pairwise(medians))
        assert medians[-1] - medians[0] <= 6 * most + 1


def test_a_likely_suspect_takes_fewer_runs() -> None:
    rng, likely = random.Random(3), []
    for _ in range(500):
        guilty = frozenset(rng.choices(range(64), [1 / (place + 4) for place in range(64)]))
        likely.append(len(search(64, partial(any_of, guilty=guilty)).trials))
    assert statistics.mean(likely) < runs(64, 1) - BASELINE
    assert sum(rank_weights(64)) == pytest.approx(1)


def test_untestable_sets_accuse_no_innocent() -> None:
    """Some differences break the program unless another one comes with them."""
    rng = random.Random(5)
    for _ in range(400):
        count = rng.randint(4, 60)
        guilty = frozenset(rng.sample(range(count), rng.randint(1, 2)))
        broken = [tuple(rng.sample(range(count), 2)) for _ in range(rng.randint(0, 4))]

        def test(chosen: Chosen, guilty: Chosen = guilty, broken: list[tuple[int, ...]] = broken) -> Answer:
            if any((first in chosen) != (second in chosen) for first, second in broken):
                return "untestable"
            return together(chosen, guilty)

        result = search(count, test)
        assert guilty <= result.guilty
        assert test(result.guilty) == "B"
        # What else is in it could not be left out.
        for number in result.guilty - guilty:
            assert test(result.guilty - {number}) == "untestable"


def test_a_crash_of_a_mixture_is_no_result_of_b() -> None:
    rng = random.Random(6)
    for _ in range(400):
        count = rng.randint(4, 60)
        guilty = frozenset(rng.sample(range(count), 1))
        first, second = rng.sample(range(count), 2)

        def test(chosen: Chosen, guilty: Chosen = guilty, first: int = first, second: int = second) -> Answer:
            return "other" if (first in chosen) and second not in chosen else together(chosen, guilty)

        result = search(count, test)
        assert test(result.guilty) == "B"
        assert guilty <= result.guilty
        first_group = result.groups[0]
        for number in first_group:
            assert len(first_group) == 1 or test(first_group - {number}) != "B"


@st.composite
def requirements(draw: st.DrawFn) -> tuple[list[set[int]], Chosen]:
    count = draw(st.integers(2, 12))
    needs = [draw(st.sets(st.integers(0, count - 1), max_size=2)) - {number} for number in range(count)]
    return needs, draw(st.frozensets(st.integers(0, count - 1), min_size=1, max_size=3))


@given(requirements())
def test_no_set_without_its_requirements_is_run(case: tuple[list[set[int]], Chosen]) -> None:
    needs, guilty = case
    asked: list[Chosen] = []

    def test(chosen: Chosen) -> Answer:
        asked.append(chosen)
        return together(chosen, guilty)

    result = search(len(needs), test, needs)
    assert all(needs[number] <= chosen for chosen in asked for number in chosen)
    assert len(asked) == len(set(asked)) == len(result.trials)
    assert guilty <= result.guilty
    assert result.forward == "B"
    closed = [
        subset
        for size in range(len(result.guilty))
        for subset in map(frozenset, combinations(result.guilty, size))
        if all(needs[number] <= subset for number in subset)
    ]
    assert all(together(subset, guilty) == "A" for subset in closed)


def test_without_the_set_and_its_dependents_is_run() -> None:
    """The second needs the first: B cannot be tested without the first alone."""
    result = search(2, lambda chosen: "B" if 0 in chosen else "A", [(), (0,)])
    assert (result.guilty, result.removed, result.backward) == (frozenset({0}), frozenset({0, 1}), "A")


def test_a_result_that_is_of_neither_side_is_not_proved() -> None:
    """B without the guilty one cannot be tested."""

    def test(chosen: Chosen) -> Answer:
        return "B" if 1 in chosen else "A" if len(chosen) < 2 else "untestable"

    result = search(3, test)
    assert (result.guilty, result.forward, result.backward) == (frozenset({1}), "B", "untestable")
    assert not result.is_proved


def test_ddmin_is_minimal() -> None:
    rng = random.Random(7)
    for _ in range(300):
        count = rng.randint(2, 40)
        guilty = set(rng.sample(range(count), rng.randint(1, min(3, count))))
        assert set(ddmin(range(count), guilty.issubset)) == guilty


def test_the_required_differences_of_a_set() -> None:
    needs = [(), (0,), (1,), ()]
    assert find_required(frozenset({0, 2, 3}), needs) == [(0, 2)]
    assert find_required(frozenset({0, 1, 2}), needs) == [(0, 1), (1, 2)]
    assert find_required(frozenset({0, 3}), needs) == []
