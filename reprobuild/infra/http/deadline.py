"""What is to happen unless something ends in time: one thread for all, as a `threading.Timer` for each costs more than
the answer that it waits for."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import math
import threading
import time
from collections.abc import Callable, Iterator


class Deadline:
    """What is to happen, and when."""

    def __init__(self, when: float, late: Callable[[], None]) -> None:
        self.when, self.late, self.over = when, late, False

    def renew(self, seconds: float) -> None:
        """Let it be due this long from now: something got on."""
        self.when = time.monotonic() + seconds


class Watchdog:
    """Calls what is due. Threads may share it; its own thread begins with the first use, and ends with the process."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: list[tuple[float, int, Deadline]] = []
        self._numbers = itertools.count()
        self._wakes = 0.0  # when the thread looks again by itself
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def within(self, seconds: float, late: Callable[[], None]) -> Iterator[Deadline]:
        """Let `late` be called, by another thread and without an error, when the block takes longer than this.

        What is given can be renewed in the block.
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
                left = self._wakes - time.monotonic()
                if left > 0:
                    self._changed.wait(None if math.isinf(left) else left)
                    continue
                due = heapq.heappop(self._waiting)[2]
                if due.when > time.monotonic():  # renewed
                    heapq.heappush(self._waiting, (due.when, next(self._numbers), due))
                    continue
            due.late()


WATCH = Watchdog()
