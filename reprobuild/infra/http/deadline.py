"""A watchdog: callbacks at deadlines, from one shared thread.

A `threading.Timer` for each would cost more than the answer that it guards.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import math
import threading
import time
from collections.abc import Callable, Iterator


class Deadline:
    """A callback, and its time."""

    def __init__(self, when: float, late: Callable[[], None]) -> None:
        self.when, self.late, self.over = when, late, False

    def renew(self, seconds: float) -> None:
        """Postpone the callback to this long from now.

        There was progress.
        """
        self.when = time.monotonic() + seconds


class Watchdog:
    """A thread-safe caller of due callbacks.

    Its own thread begins with the first use, and ends with the process.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: list[tuple[float, int, Deadline]] = []
        self._numbers = itertools.count()
        self._wakes = 0.0  # the time of the thread's next own check
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def limit_time(self, seconds: float, late: Callable[[], None]) -> Iterator[Deadline]:
        """Call `late` if the block takes longer than `seconds`.

        Another thread calls it; it must not raise. The yielded value can be renewed in the block.
        """
        due = Deadline(time.monotonic() + seconds, late)
        with self._changed:
            heapq.heappush(self._waiting, (due.when, next(self._numbers), due))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True, name="watch")
                self._thread.start()
            elif due.when < self._wakes:
                self._changed.notify()
        try:
            yield due
        finally:
            with self._changed:
                due.over = True
                self._clear()

    def _clear(self) -> None:
        while self._waiting and self._waiting[0][2].over:
            heapq.heappop(self._waiting)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._clear()
                self._wakes = self._waiting[0][0] if self._waiting else math.inf
                seconds = self._wakes - time.monotonic()
                if seconds > 0:
                    self._changed.wait(None if math.isinf(seconds) else seconds)
                    continue
                due = heapq.heappop(self._waiting)[2]
                if due.when > time.monotonic():  # renewed
                    heapq.heappush(self._waiting, (due.when, next(self._numbers), due))
                    continue
            due.late()


WATCH = Watchdog()
