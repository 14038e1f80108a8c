"""Trials at the same time: the one that the search needs, and those that it may need next.

The search is a function of the answers. It is followed from its begin with the answers so far: the first set without
one is needed. Those that follow if it answers A or B may be needed, and so on. The result is that of `search`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from reprobuild.bisect.search import Answer, Chosen, Needs, SearchResult, make_graph, search
from reprobuild.infra.cancel import CancelToken
from reprobuild.infra.proc.session import end_all

_MOST_LOOKS = 8  # followed searches for each planned test: some plan the same one


class _NeededError(Exception):
    """The search needs the answer for a set."""

    def __init__(self, chosen: Chosen) -> None:
        super().__init__()
        self.chosen = chosen


def plan_tests(count: int, answers: Mapping[Chosen, Answer], needs: Needs, most: int) -> list[Chosen]:
    """Return sets to test at the same time, the needed one first; none if the search is at its end."""
    plan: dict[Chosen, None] = {}
    waiting: deque[Mapping[Chosen, Answer]] = deque([answers])
    for _ in range(_MOST_LOOKS * most):
        if not waiting or len(plan) >= most:
            break
        assumed = waiting.popleft()
        chosen = _find_needed(count, assumed, needs)
        if chosen is not None:
            plan.setdefault(chosen)
            waiting += [{**assumed, chosen: "A"}, {**assumed, chosen: "B"}]
    return list(plan)


def _find_needed(count: int, answers: Mapping[Chosen, Answer], needs: Needs) -> Chosen | None:
    def test(chosen: Chosen) -> Answer:
        if chosen not in answers:
            raise _NeededError(chosen)
        return answers[chosen]

    try:
        search(count, test, needs)
    except _NeededError as err:
        return err.chosen
    return None


class Crew:
    """Threads that run trials.

    At the end of its block, the programs of all running trials are ended.
    """

    def __init__(self, jobs: int, cancel: CancelToken) -> None:
        """Take the number of threads, and the token that the trials check."""
        self.jobs, self._cancel = jobs, cancel
        self._pool = ThreadPoolExecutor(jobs)
        self._futures: set[Future[Any]] = set()

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        self._cancel.say()
        self._pool.shutdown(wait=False, cancel_futures=True)
        end_all()  # those that prepare an image; the token ends containers
        wait([future for future in self._futures if not future.cancelled()])

    def submit(self, function: Callable[..., Any], *arguments: object) -> Future[Any]:
        """Run a function in a thread."""
        future = self._pool.submit(function, *arguments)
        self._futures.add(future)
        return future


def search_together(
    count: int, test: Callable[[Chosen, int], Answer], needs: Needs, crew: Crew,
    save: Callable[[], None],
) -> SearchResult:  # fmt: skip
    """Find the smallest set of differences as `search` does.

    Args:
        count, needs: as `search` has them.
        test: answers for a set; the number, from 0, is that of its place among those that run at the same time.
        crew: runs the tests.
        save: called in this thread after each test.
    """
    needs = make_graph(count, needs)
    answers: dict[Chosen, Answer] = {}
    running: dict[Future[Answer], tuple[Chosen, int]] = {}
    places = set(range(crew.jobs))
    while plan := plan_tests(count, answers, needs, crew.jobs):
        busy = {chosen for chosen, _ in running.values()}
        for chosen in plan:
            if chosen not in busy and places:
                place = places.pop()
                running[crew.submit(test, chosen, place)] = chosen, place
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            chosen, place = running.pop(future)
            places.add(place)
            answers[chosen] = future.result()
            save()
    return search(count, answers.__getitem__, needs)
