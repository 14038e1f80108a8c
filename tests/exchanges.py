"""Directories that another user exchanges at the very moment after they are made, or opened."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

MOMENTS = ("mkdir", "open")  # the function of `os` after which the exchange happens
OTHER_USER = 65534


@contextmanager
def exchange(moment: str, prefix: str, trap: Path, owner: int = OTHER_USER) -> Iterator[list[Path]]:
    """Put `trap` in the place of the first directory with a name that begins so.

    The list gets the path under which the honest directory is then.

    Args:
        moment: one of `MOMENTS`.
        prefix: of the directory's name; it is beside `trap`.
        trap: the directory of another user.
        owner: of the trap.
    """
    honest: Callable[..., Any] = getattr(os, moment)
    away: list[Path] = []
    os.chown(trap, owner, owner)

    def call(path: Any, *arguments: Any, **options: Any) -> Any:
        result = honest(path, *arguments, **options)
        name = Path(os.fsdecode(path)).name if not isinstance(path, int) else ""
        if not away and name.startswith(prefix) and (trap.parent / name).is_dir():
            away.append(trap.parent / f"away-{name}")
            (trap.parent / name).rename(away[0])
            trap.rename(trap.parent / name)
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, moment, call)
        yield away
    assert away, "there was no such directory"
