"""Requirements between numbered things, in time and memory of their number.

A chain of n things has n * n / 2 requirements with the indirect ones, so those are followed only when asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property


class RequirementGraph:
    """The things that each thing requires, by number."""

    def __init__(self, direct: Iterable[Iterable[int]]) -> None:
        """Take the numbers that each thing itself requires."""
        self.direct = [frozenset(numbers) for numbers in direct]

    def reach(self, numbers: Iterable[int], skipped: Collection[int] = ()) -> set[int]:
        """Return these things and all that they require, but for skipped ones, with theirs."""
        return _follow(numbers, self.direct, skipped)

    def dependents(self, numbers: Iterable[int]) -> set[int]:
        """Return these things, and all that require one of them."""
        return _follow(numbers, self._requiring, ())

    @cached_property
    def _requiring(self) -> list[list[int]]:
        requiring: list[list[int]] = [[] for _ in self.direct]
        for number, others in enumerate(self.direct):
            for other in others:
                requiring[other].append(number)
        return requiring

    @cached_property
    def components(self) -> list[list[int]]:
        """All things, in groups that require each other, each group after those that it requires.

        This is Tarjan's algorithm, https://doi.org/10.1137/0201010, without recursion.
        """
        components: list[list[int]] = []
        order: dict[int, int] = {}  # of the first visits
        lowest: dict[int, int] = {}
        path: list[int] = []
        on_path: set[int] = set()
        for start in range(len(self.direct)):
            steps: list[tuple[int, Iterator[int]]] = []
            following: int | None = None if start in order else start
            while steps or following is not None:
                if following is not None:
                    order[following] = lowest[following] = len(order)
                    path.append(following)
                    on_path.add(following)
                    steps.append((following, iter(self.direct[following])))
                number, others = steps[-1]
                following = next((other for other in others if other not in order), None)
                if following is not None:
                    continue
                steps.pop()
                for other in self.direct[number]:
                    if other in on_path:
                        lowest[number] = min(lowest[number], lowest[other])
                if lowest[number] == order[number]:
                    component = [path.pop()]
                    while component[-1] != number:
                        component.append(path.pop())
                    on_path.difference_update(component)
                    components.append(component)
        return components

    @cached_property
    def _places(self) -> dict[int, int]:
        """The component of each thing."""
        return {number: place for place, component in enumerate(self.components) for number in component}

    @cached_property
    def depths(self) -> list[int]:
        """For each thing, the length of the longest chain of requirements below it."""
        below = [0] * len(self.components)
        for place, component in enumerate(self.components):
            required = {self._places[other] for number in component for other in self.direct[number]}
            below[place] = max((below[other] + 1 for other in required if other != place), default=0)
        return [below[self._places[number]] for number in range(len(self.direct))]

    def find_requiring(self, chosen: Collection[int]) -> dict[int, int]:
        """Return for each chosen thing the first other chosen one that requires it, if there is one."""
        first: list[list[int]] = [
            [] for _ in self.components
        ]  # the two smallest chosen things at it or above it
        for place in reversed(range(len(self.components))):
            component = self.components[place]
            first[place] = _two_smallest(first[place], (number for number in component if number in chosen))
            for other in {self._places[other] for number in component for other in self.direct[number]}:
                if other != place:
                    first[other] = _two_smallest(first[other], first[place])
        requiring = {
            number: [other for other in first[self._places[number]] if other != number] for number in chosen
        }
        return {number: others[0] for number, others in requiring.items() if others}


def _two_smallest(numbers: Iterable[int], more: Iterable[int]) -> list[int]:
    return sorted({*numbers, *more})[:2]


def _follow(numbers: Iterable[int], edges: Sequence[Collection[int]], skipped: Collection[int]) -> set[int]:
    reached = {number for number in numbers if number not in skipped}
    waiting = list(reached)
    while waiting:
        more = [other for other in edges[waiting.pop()] if other not in reached and other not in skipped]
        reached.update(more)
        waiting += more
    return reached
