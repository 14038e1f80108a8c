"""The progress of a step, as code reports it and a display shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Progress(Protocol):
    """A display of how much of a step is done."""

    def __call__(self, done: int, total: int, detail: str = "", *, unit: str = "") -> None:
        """Show a state of the step.

        Args:
            done: the bytes so far, or the number of units.
            total: the bytes in all, or the number of units; 0 if it is not known.
            detail: what the step is at, a name of a file for example.
            unit: of the numbers, in plural; empty for bytes.
        """
        ...


def ignore_progress(done: int, total: int, detail: str = "", *, unit: str = "") -> None:
    """Show nothing."""


class CountedSteps:
    """Steps that are passed on, and counted: a caller repeats its own step after others."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.count = 0
        self._say = say

    def __call__(self, text: str) -> None:
        """Pass a step on."""
        self.count += 1
        self._say(text)
