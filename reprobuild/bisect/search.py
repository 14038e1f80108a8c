"""The search for the smallest set of differences behind another result.

Differences are numbers, the likeliest first. A set of them is tested by applying it to A; all of them make B. The
search cuts an ordered list in two by the weight of its parts: the shortest prefix with the result of B ends with a
guilty difference. That one stays applied, and the search goes on for others that must be present, too. Where prefixes
cannot be tested, delta debugging takes over (`ddmin`). The answer is 1-minimal, and both directions are tested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import accumulate
from typing import Literal

from msgspec import Struct

from reprobuild.bisect.ddmin import ddmin
from reprobuild.bisect.requirement_graph import RequirementGraph

Answer = Literal["A", "B", "other", "untestable"]
Chosen = frozenset[int]
Test = Callable[[Chosen], Answer]
Needs = Sequence[Iterable[int]] | RequirementGraph

MOST_SKIPS = 6  # untestable prefixes in a row, before delta debugging takes over


class SearchTrial(Struct, frozen=True, kw_only=True):
    """One tested set of differences, and its answer."""

    chosen: Chosen
    answer: Answer


class SearchResult(Struct, frozen=True, kw_only=True):
    """The smallest set, and its tests in both directions.

    Attributes:
        guilty: the set; empty if there is no answer.
        groups: parts of it; the first suffices alone, each other one changes the result without the former ones.
        forward: the answer of A with the set; `B` if it is proved.
        backward: the answer of B without the set; `A` if it is proved.
        removed: the set, with the differences that cannot stay without it.
        trials: all tests, in order.
    """

    guilty: Chosen
    groups: tuple[Chosen, ...]
    forward: Answer
    backward: Answer
    removed: Chosen
    trials: tuple[SearchTrial, ...]

    @property
    def is_proved(self) -> bool:
        """Whether both directions gave the expected results."""
        return bool(self.guilty) and self.forward == "B" and self.backward == "A"


def rank_weights(count: int) -> list[float]:
    """Return how likely each difference is guilty, by its place.

    Half of the weight is equal for all, so that a bad order costs one more test at most.
    `tests/bisecting/test_search.py` measures the runs.
    """
    places = [1 / (place + 4) for place in range(count)]
    total = sum(places)
    return [0.5 / count + 0.5 * place / total for place in places]


def search(count: int, test: Test, needs: Needs = (), weights: Sequence[float] = ()) -> SearchResult:
    """Find the smallest set of differences behind the other result.

    Args:
        count: the number of differences; none of them has the result A, and all have B.
        test: answers for a set of differences, applied to A.
        needs: for each difference, those that must be applied with it.
        weights: how likely each is guilty; `rank_weights` by default.
    """
    return _Search(count, test, needs, weights or rank_weights(count)).result()


def find_required(guilty: Chosen, needs: Needs) -> list[tuple[int, int]]:
    """Return pairs of a set: the first must be applied with the second, which requires it."""
    return sorted(make_graph(0, needs).find_requiring(guilty).items())


def make_graph(count: int, needs: Needs) -> RequirementGraph:
    """Return the graph of the requirements between differences; there are none by default."""
    return needs if isinstance(needs, RequirementGraph) else RequirementGraph(needs or [()] * count)


class _Search:
    """The tests so far, and the steps of the search."""

    def __init__(self, count: int, test: Test, needs: Needs, weights: Sequence[float]) -> None:
        self._all = frozenset(range(count))
        self._test, self._weights = test, weights
        self._needs = make_graph(count, needs)
        self._answers: dict[Chosen, Answer] = {frozenset(): "A", self._all: "B"}
        self._trials: list[SearchTrial] = []

    def result(self) -> SearchResult:
        guilty = self._sufficient(_is_b)
        groups = [guilty]
        while True:
            removed = self._with_dependents(guilty)
            forward, backward = self._ask(guilty), self._ask(self._all - removed)
            if backward in ("A", "untestable") or forward != "B":
                break
            more = self._sufficient(_is_not_a, self._all - removed)
            groups.append(more)
            guilty = guilty | more
        return SearchResult(
            guilty=guilty, groups=tuple(groups), forward=forward, backward=backward, removed=removed,
            trials=tuple(self._trials),
        )  # fmt: skip

    def _ask(self, chosen: Chosen) -> Answer:
        """Return the answer for a set; a set is tested once."""
        if chosen not in self._answers:
            answer: Answer = self._test(chosen) if self._is_closed(chosen) else "untestable"
            self._answers[chosen] = answer
            if self._is_closed(chosen):
                self._trials.append(SearchTrial(chosen=chosen, answer=answer))
        return self._answers[chosen]

    def _is_closed(self, chosen: Chosen) -> bool:
        return all(self._needs.direct[number] <= chosen for number in chosen)

    def _with_dependents(self, chosen: Chosen) -> Chosen:
        return frozenset(self._needs.dependents(chosen))

    def _extends(self, base: Chosen, hits: Callable[[Answer], bool], more: Sequence[int]) -> bool:
        return hits(self._ask(base | frozenset(more)))

    def _order(self, numbers: Chosen) -> list[int]:
        """Return differences by weight, each after its requirements."""
        order: list[int] = []
        placed: set[int] = set()
        depths = self._needs.depths
        for number in sorted(numbers, key=lambda number: (-self._weights[number], number)):
            needed = self._needs.reach([number], placed)
            placed |= needed
            order += sorted(needed & numbers, key=lambda other: (depths[other], other))
        return order

    def _sufficient(self, hits: Callable[[Answer], bool], among: Chosen | None = None) -> Chosen:
        """Return a 1-minimal set with a result.

        Args:
            hits: the result.
            among: a set that has it; all by default.
        """
        candidates = self._order(self._all if among is None else among)
        chosen: Chosen = frozenset()
        while not hits(self._ask(chosen)):
            low, high = self._shortest_prefix(chosen, candidates, hits)
            base = chosen | frozenset(candidates[:low])
            part = candidates[low:high]
            if len(part) > 1:  # no prefix between them can be tested
                part = ddmin(part, partial(self._extends, base, hits))
            chosen = chosen | self._needs.reach(part)
            candidates = [number for number in candidates[:low] if number not in chosen]
        return self._minimise(chosen, hits)

    def _shortest_prefix(
        self, chosen: Chosen, candidates: Sequence[int], hits: Callable[[Answer], bool]
    ) -> tuple[int, int]:
        """Return the bounds of the last needed difference.

        The prefix of the first length does not hit, that of the second does. They differ by more than 1 if all tested
        prefixes between them are untestable.
        """
        low, high = 0, len(candidates)
        while high - low > 1:
            skips: list[int] = []
            answer: Answer = "untestable"
            while (middle := self._cut(candidates, low, high, skips)) is not None:
                answer = self._ask(chosen | frozenset(candidates[:middle]))
                if answer != "untestable":
                    break
                skips.append(middle)
            if middle is None:
                break
            low, high = (low, middle) if hits(answer) else (middle, high)
        return low, high

    def _cut(self, candidates: Sequence[int], low: int, high: int, skips: Sequence[int]) -> int | None:
        """Return the place at half of the weight, but for untestable ones."""
        places = [place for place in range(low + 1, high) if place not in skips]
        if not places or len(skips) >= MOST_SKIPS:
            return None
        sums = list(accumulate(self._weights[number] for number in candidates[low:high]))
        # Beside an untestable place others often are, too: go away from it.
        near = [min(abs(place - skip) for skip in skips) if skips else 0 for place in places]
        distance = [abs(sums[place - low - 1] - sums[-1] / 2) for place in places]
        if not skips:
            return places[min(range(len(places)), key=lambda index: distance[index])]
        return places[max(range(len(places)), key=lambda index: (near[index], -distance[index]))]

    def _minimise(self, chosen: Chosen, hits: Callable[[Answer], bool]) -> Chosen:
        """Leave out unneeded differences, one by one."""
        for number in sorted(chosen, reverse=True):
            if number not in chosen or len(chosen) == 1:
                continue
            smaller = chosen - self._with_dependents(frozenset([number]))
            if smaller and hits(self._ask(smaller)):
                chosen = smaller
        return chosen


def _is_b(answer: Answer) -> bool:
    return answer == "B"


def _is_not_a(answer: Answer) -> bool:
    return answer in ("B", "other")
