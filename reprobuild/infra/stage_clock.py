"""A clock for the stages of a command."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator


class StageClock:
    """The time that each stage of a command took."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def measure(self, stage: str) -> Iterator[None]:
        """Measure a block; several blocks of one stage add up."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._seconds[stage] = self._seconds.get(stage, 0.0) + time.monotonic() - began

    @property
    def seconds(self) -> dict[str, float]:
        """The seconds of each stage, in the order of their first blocks."""
        return dict(self._seconds)
