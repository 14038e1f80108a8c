"""How one thread ends what others are doing."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator


class CancelledError(Exception):
    """Another thread wants no more of this."""


class CancelToken:
    """A word that several threads obey: those that wait, and those that read what does not come."""

    def __init__(self) -> None:
        self._said = threading.Event()
        self._guard = threading.Lock()
        self._ends: list[Callable[[], None]] = []

    def say(self) -> None:
        """End it all."""
        with self._guard:
            self._said.set()
            for end in self._ends:
                end()

    def check(self, _: int = 0) -> None:
        """Raise `CancelledError` where the word was said. The number is for those who tell how many bytes came."""
        if self._said.is_set():
            raise CancelledError

    def sleep(self, seconds: float) -> None:
        """Sleep, unless the word is said: then raise `CancelledError`."""
        self._said.wait(max(0.0, seconds))
        self.check()

    @contextlib.contextmanager
    def ending(self, end: Callable[[], None]) -> Iterator[None]:
        """Let `end` be called, by the other thread and without an error, when the word is said in this block."""
        with self._guard:
            self.check()
            self._ends.append(end)
        try:
            yield
        finally:
            with self._guard:
                self._ends.remove(end)
