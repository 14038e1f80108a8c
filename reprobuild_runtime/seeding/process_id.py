"""The name of this process: its rank, and its place among forks.

It is the same each time a program runs.

A worker of multiprocessing is named by multiprocessing's own numbers, for any start method, so that it has the same
name under fork, spawn and forkserver (loky's workers are such, too). Another forked child is named by the number of the
fork in its parent, and leaves its name in REPROBUILD_PLACE for the interpreters that are started below it. A
subinterpreter has its number. Process ids, times and addresses, which differ each time, are not used.
"""

# ruff: noqa: TID251  the environment is what it reads

import os
import sys

from reprobuild_runtime import fork_ids
from reprobuild_runtime.seeding import ranks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Tuple

_path: "List[Tuple[str, int]]" = []  # for each fork above: the worker that forked, and the number of the fork
_in_children: "List[Tuple[Callable[[], None], object]]" = []
_above = os.environ.get(fork_ids.ABOVE, "")[: fork_ids.LONGEST + 99]
_names: "Dict[Tuple[object, ...], str]" = {}  # the last name, by its parts


def _interpreter() -> int:
    """Return this interpreter's number in its process, 0 for the main one."""
    try:
        import _thread

        if _thread._is_main_interpreter():  # type: ignore[attr-defined]  # 3.12 and newer: nothing is loaded for it
            return 0
    except AttributeError:
        pass
    try:
        if sys.version_info >= (3, 13):
            import _interpreters as interpreters
        else:
            import _xxsubinterpreters as interpreters  # type: ignore[import-not-found]  # before 3.13
        now: "Any" = interpreters.get_current()
        return int(now[0] if isinstance(now, tuple) else now)
    except Exception:  # a Python without subinterpreters
        return 0


_number = _interpreter()


def name_process() -> str:
    """Return the name of this process.

    It is empty for the first process of a program that has no rank, or rank 0.
    """
    now = _worker()
    parts = (ranks.texts(os.environ), now, len(_path))
    name = _names.get(parts)
    if name is None:
        rank = ranks.rank(os.environ)
        name = "/".join([f"rank {rank}"] * bool(rank) + _list_name_parts(now))
        _names.clear()
        _names[parts] = name
    return name


def _list_name_parts(now: str) -> "List[str]":
    """Return the parts of this process's name, without its rank.

    `now` is the name of the current worker.
    """
    words = [_above] if _above else []
    if _number:
        words.append(f"interpreter {_number}")
    worker = ""
    for number, (forker, fork) in enumerate(_path):
        after = _path[number + 1][0] if number + 1 < len(_path) else now
        if forker != worker:
            words.append(forker)
        worker = forker
        if after == forker:  # else the fork was multiprocessing's own, and `after` names the result
            words.append(f"fork {fork}")
    if now != worker:
        words.append(now)
    return words


def _worker() -> str:
    """Return multiprocessing's name of this process.

    It is empty outside its workers.

    A spawned worker that imports the main module has its name already, but not yet its numbers.
    """
    module = sys.modules.get("multiprocessing.process")
    process: "Any" = module.current_process() if module is not None else None
    numbers = getattr(process, "_identity", ())
    if numbers:
        return "worker " + ":".join(map(str, numbers))
    name = getattr(process, "name", "MainProcess")
    return "" if name == "MainProcess" else f"worker {name}"


def count_forks() -> int:
    """Return the number of forks since the counting process."""
    return len(_path)


def in_forked_children(action: "Callable[[], None]", module: object = None) -> None:
    """Run `action` in each later forked child, once for each module.

    The child's place is known then.

    It runs after the functions that the module itself registered: Python's `random` seeds itself there.
    """
    watch_forks()
    if (action, module) not in _in_children and hasattr(os, "register_at_fork"):
        _in_children.append((action, module))
        os.register_at_fork(after_in_child=action)


def watch_forks() -> None:
    """Name forked children from now on."""
    if not fork_ids.told:
        fork_ids.told.append(_renew_child)


def _renew_child(number: int, named: bool) -> None:
    now = _worker()
    _path.append((now, number))
    _names.clear()
    if named:
        leave_name("/".join(_list_name_parts(now)))


def leave_name(name: str) -> None:
    """Leave a name for the interpreters started below this process.

    A long name is replaced by a number.
    """
    if len(name) > fork_ids.LONGEST:
        from reprobuild_runtime.seeding import seed_streams

        name = f"{seed_streams.number(name, 256):064x}"
    os.environ[fork_ids.ABOVE] = name
