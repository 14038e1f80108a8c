"""The walk of one datum through the stages of `resolve`: which functions hold it, in their order."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import reprobuild.resolve
from reprobuild.lock.model import Resolution
from reprobuild.lock.python import Sdist, Wheel
from reprobuild.snapshot.model import Requirement

RESOLVE = Path(reprobuild.resolve.__file__).parent
Made = TypeVar("Made")
Visit = tuple[int, str, str]  # the number of the call, the module below `resolve/`, the function


def follow_line(name: str, action: Callable[[], Made]) -> tuple[Made, list[str], set[str]]:
    """Call `action`, and return its result, the stages that hold the line of a name, and their functions.

    A function holds a line if a variable of it is the line, its wheel, its source or its resolution. A stage is a
    package of `resolve/`; the modules beside them compose the stages.
    """
    visits: list[Visit] = []
    calls = iter(range(sys.maxsize))

    def trace(frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        path = Path(frame.f_code.co_filename)
        if not path.is_relative_to(RESOLVE):
            return None
        module, number, seen = path.relative_to(RESOLVE).as_posix(), next(calls), [False]

        def watch(frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
            if not seen[0] and any(_is_of_line(value, name) for value in tuple(frame.f_locals.values())):
                seen[0] = True
                visits.append((number, module, frame.f_code.co_name))
            return watch

        return watch

    former, of_threads = sys.gettrace(), threading.gettrace()
    threading.settrace(trace)
    sys.settrace(trace)
    try:
        result = action()
    finally:
        sys.settrace(former)
        threading.settrace(of_threads)
    functions = {f"{module}:{function}" for _, module, function in visits}
    return result, list(stages(visits)), functions


def stages(visits: list[Visit]) -> Iterator[str]:
    """Yield the stage of each stay: visits of one stage in a row are one stay."""
    packages = (module.partition("/")[0] for _, module, _ in sorted(visits) if "/" in module)
    yield from (package for package, _ in groupby(packages))


def _is_of_line(value: object, name: str) -> bool:
    if isinstance(value, Resolution):
        return value.subject == name
    return isinstance(value, (Requirement, Wheel, Sdist)) and value.name == name
