"""Which process this is, in words that are the same each time a program runs: its rank, and its place among forks.

A worker of multiprocessing is named by multiprocessing's own numbers, whatever its start method, so that it has the
same name under fork, spawn and forkserver (loky's workers are such, too). Another forked child is named by the number
of the fork in its parent. Process ids, times and addresses, which differ each time, are in no name.
"""

# ruff: noqa: TID251  the environment is what it reads

import os
import sys
from _thread import _local
from itertools import count

from reprobuild_runtime.seeding import ranks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator, List, Tuple

_forks: "List[Iterator[int]]" = [count(1)]  # the numbers of this process's forks
_forking: "Any" = _local()  # the number of the fork that this thread makes: two threads may fork at once
_path: "List[Tuple[str, int]]" = []  # of each fork above: the worker that forked, and the number of the fork
_in_children: "List[Callable[[], None]]" = []


def here() -> str:
    """Return the name of this process; empty for the first process of a program that has no rank, or rank 0."""
    words = []
    rank = ranks.rank(os.environ)
    if rank:
        words.append(f"rank {rank}")
    worker = ""
    now = _worker()
    for number, (forker, fork) in enumerate(_path):
        after = _path[number + 1][0] if number + 1 < len(_path) else now
        if forker != worker:
            words.append(forker)
        worker = forker
        if after == forker:  # else the fork was multiprocessing's own, and `after` names what came of it
            words.append(f"fork {fork}")
    if now != worker:
        words.append(now)
    return "/".join(words)


def _worker() -> str:
    """Return multiprocessing's name of this process, empty outside its workers.

    A spawned worker that imports the main module has its name already, and its numbers not yet.
    """
    module = sys.modules.get("multiprocessing.process")
    process: "Any" = module.current_process() if module is not None else None
    numbers = getattr(process, "_identity", ())
    if numbers:
        return "worker " + ":".join(map(str, numbers))
    name = getattr(process, "name", "MainProcess")
    return "" if name == "MainProcess" else f"worker {name}"


def in_forked_children(action: "Callable[[], None]") -> None:
    """Run `action` from now on in each child that is forked, once its place is known; the same action only once."""
    watch_forks()
    if action not in _in_children:
        _in_children.append(action)


def watch_forks() -> None:
    """Count forks from now on."""
    if not _watching and hasattr(os, "register_at_fork"):
        _watching.append(True)
        os.register_at_fork(
            before=_before, after_in_child=_after_in_child
        )  # runs after what random.py registered


_watching: "List[bool]" = []


def _before() -> None:
    _forking.number = next(_forks[0])


def _after_in_child() -> None:
    _path.append((_worker(), _forking.number))
    _forks[:] = [count(1)]
    for action in _in_children:
        action()
