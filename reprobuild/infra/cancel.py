"""A cancellation token that threads share."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator


class CancelledError(Exception):
    """Raised when another thread cancelled the operation."""


class CancelToken:
    """A thread-safe cancellation token.

    It ends waits, and reads from slow connections.
    """

    def __init__(self) -> None:
        self._said = threading.Event()
        self._guard = threading.Lock()
        self._ends: list[Callable[[], None]] = []

    def say(self) -> None:
        """Cancel all operations that use the token."""
        with self._guard:
            self._said.set()
            for end in self._ends:
                end()

    def check(self, _: int = 0) -> None:
        """Raise `CancelledError` if the token was cancelled.

        The number is ignored, for use as a progress callback with bytes.
        """
        if self._said.is_set():
            raise CancelledError

    def sleep(self, seconds: float) -> None:
        """Sleep, and raise `CancelledError` upon cancellation."""
        self._said.wait(max(0.0, seconds))
        self.check()

    @contextlib.contextmanager
    def ending(self, end: Callable[[], None]) -> Iterator[None]:
        """Call `end` if the token is cancelled within this block.

        The other thread calls it; it must not raise.
        """
        with self._guard:
            self.check()
            self._ends.append(end)
        try:
            yield
        finally:
            with self._guard:
                self._ends.remove(end)


# Cancelled by a signal that ends this program: threads that wait for a server do not get the signal.
INTERRUPTION = CancelToken()
