"""Requirements between differences: groups, orders and closures as the plain definitions have them, within bounds."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable
from itertools import combinations

import pytest

from reprobuild.bisect.atoms import find_atoms
from reprobuild.bisect.requirement_graph import RequirementGraph
from reprobuild.bisect.requirements import link_wheels
from reprobuild.bisect.search import find_required, search
from reprobuild.bisect.slots import Slots
from reprobuild.lock.model import Lock
from reprobuild.lock.python import Wheel
from tests.counted import CountedName, counted_names
from tests.verify.samples import make_lock, wheel

MIB = 1 << 20


def closure(number: int, direct: list[list[int]]) -> set[int]:
    """Return what a thing requires, and itself, by the definition."""
    reached = {number}
    while more := {other for inner in reached for other in direct[inner]} - reached:
        reached |= more
    return reached


def draw(rng: random.Random) -> list[list[int]]:
    count = rng.randint(1, 12)
    return [
        rng.sample(range(count), rng.choice([0, 0, 1, 1, 2, min(4, count)]) % (count + 1))
        for _ in range(count)
    ]


def test_graphs_are_as_defined() -> None:
    rng = random.Random(3)
    for _ in range(1000):
        direct = draw(rng)
        graph = RequirementGraph(direct)
        reached = [closure(number, direct) for number in range(len(direct))]
        numbers = set(range(len(direct)))
        assert [graph.reach([number]) for number in sorted(numbers)] == reached
        assert graph.dependents([0]) == {number for number in numbers if 0 in reached[number]}
        components = graph.components
        assert sorted(number for component in components for number in component) == sorted(numbers)
        place = {number: place for place, component in enumerate(components) for number in component}
        for first, second in combinations(range(len(direct)), 2):
            assert (place[first] == place[second]) == (second in reached[first] and first in reached[second])
        for number in numbers:
            for other in direct[number]:
                assert place[other] <= place[number]
                assert graph.depths[other] + (place[other] != place[number]) <= graph.depths[number]
        chosen = {number for number in numbers if rng.random() < 0.5}
        expected = {
            number: min(requiring)
            for number in chosen
            if (requiring := [other for other in chosen if other != number and number in reached[other]])
        }
        assert graph.find_requiring(chosen) == expected


def test_a_long_chain_is_no_recursion() -> None:
    count = 20_000
    graph = RequirementGraph([*([number + 1] for number in range(count - 1)), []])
    assert graph.components == [[number] for number in reversed(range(count))]
    assert graph.depths[0] == count - 1
    assert len(graph.reach([0])) == len(graph.dependents([count - 1])) == count
    ring = RequirementGraph([(number + 1) % count] for number in range(count))
    assert list(map(len, ring.components)) == [count]


def chain(count: int, operator: str, version: str) -> Lock:
    """Return a lock of wheels, each of which requires the next one."""
    return make_lock(
        sources=(),
        wheels=tuple(
            wheel(
                f"w{number}", version, requires=(f"w{number + 1}{operator}{version}",) * (number + 1 < count)
            )
            for number in range(count)
        ),
    )


def peak(function: Callable[[], object]) -> int:
    """Return the bytes that a function takes at once."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("operator", "atoms"), [("==", 1), (">=", 1000)])
def test_a_chain_of_wheels_takes_memory_of_its_length(operator: str, atoms: int) -> None:
    """The closure of each wheel took up to 114 MB for 1,000, and a hundred times as much for 10,000."""
    first, second = chain(1000, operator, "1"), chain(1000, operator, "2")
    assert len(find_atoms(first, second).atoms) == atoms
    assert peak(lambda: find_atoms(first, second)) < 12 * MIB


def test_a_search_in_a_chain_takes_memory_of_its_length() -> None:
    count = 2000
    needs = [*(frozenset({number + 1}) for number in range(count - 1)), frozenset[int]()]

    def follow() -> None:
        result = search(count, lambda chosen: "B" if count - 1 in chosen else "A", needs)
        assert (result.guilty, result.is_proved) == ({count - 1}, True)
        assert find_required(frozenset(range(count)), needs) == [(number, 0) for number in range(1, count)]

    assert peak(follow) < 12 * MIB


def test_wheels_are_looked_up_by_name() -> None:
    """A search of a list for each wheel compared 2,000 names two million times."""
    wheels: list[tuple[CountedName, Wheel]] = [(name, wheel(name)) for name in counted_names(2000)]
    side: Slots = {("wheel", name): item for name, item in wheels}
    # Equal slots that are not the same objects, as those of the other lock.
    assert link_wheels((side, {}), [("wheel", CountedName(name)) for name, _ in wheels]) == []
    assert CountedName.comparisons < 40_000
