"""The lines of the first differences among the variables of two runs.

An origin that reaches many lines decides the result; one that reaches few is mostly a measurement of time.
"""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path
from sys import getsizeof
from typing import NamedTuple

import msgspec

from reprobuild.trace.line_comparison import MOST_MEMORY, MOST_NAMES, LineComparison, Origin
from reprobuild.trace.line_log import read_lines

_MOST_LOGS = 4096
_LINES = ".lines"  # after the name of the process, in the name of a log
_THREAD = ".lines-"  # in the name of the log of a thread beside the main one
_MOST_WORK = 20_000_000  # records, values and differences that are looked at, in all logs
_MOST_BYTES = 4 << 30  # of all logs of a run
_MOST_SHOWN = 20  # origins
_MOST_KEPT = 20_000  # origins of all logs


class _Users(NamedTuple):
    """The threads that use a global variable: whether there are several, and whether one is not the main thread."""

    several: bool
    in_thread: bool


_NO_USERS = _Users(several=False, in_thread=False)


def find_origins(first: Path, second: Path, step: int = 0, process: str = "") -> list[Origin]:
    """Return the origins of the differences between two runs, the likeliest first.

    Of the origins that reach at least half as many lines as the widest one, the earliest comes first: an object that
    two variables name carries a difference to lines where it seems to begin anew. The others follow by their reach.
    If a later step than the first one differs first, the origins of that step come before all others.

    Args:
        first, second: the directories of the logs.
        step: in which the runs begin to differ.
        process: the process in which they begin to differ; its origins come before those of others.

    Raises:
        InconclusiveError: a log is damaged.
    """
    names = sorted(
        {path.name for path in first.glob("*.lines")} & {path.name for path in second.glob("*.lines")}
    )
    origins: dict[str, Origin] = {}
    users: dict[tuple[str, str], _Users] = {}  # of the global variables of each file
    work, size, memory = _MOST_WORK, 0, 0
    for name in names[:_MOST_LOGS]:
        size += max((folder / name).lstat().st_size for folder in (first, second))
        if size > _MOST_BYTES:
            break
        comparison = LineComparison(
            name.partition(_LINES)[0], in_thread=_THREAD in name, work=work, names=len(users), memory=memory
        )
        for origin in comparison.run(read_lines(first / name), read_lines(second / name)):
            known = origins.get(origin.place)
            if known is None or known.reach < origin.reach:
                origins[origin.place] = origin
                memory += sum(map(getsizeof, (origin.place, origin.text, *origin.names, *origin.writes)))
        memory += sum(getsizeof(name) for _, name in comparison.globals - users.keys())
        memory += sum(map(getsizeof, {path for path, _ in comparison.globals}))  # each log has its own copy
        for variable in comparison.globals:
            known_users = users.get(variable, _NO_USERS)
            users[variable] = _Users(
                several=known_users is not _NO_USERS, in_thread=known_users.in_thread or _THREAD in name
            )
        work = comparison.work - len(comparison.globals)
        if work <= 0 or len(users) > MOST_NAMES or memory > MOST_MEMORY or len(origins) > _MOST_KEPT:
            break
    shared = {variable for variable, threads in users.items() if threads.several and threads.in_thread}
    marked = [_mark_shared(origin, shared) for origin in origins.values()]
    widest = max((origin.reach for origin in marked), default=0)
    ranked = sorted(marked, key=lambda origin: (origin.process != process, *_order(origin, widest, step)))
    return ranked[:_MOST_SHOWN]


def _order(origin: Origin, widest: int, step: int) -> tuple[bool, bool, bool, bool, int]:
    if step and origin.step == step:
        return False, False, origin.in_thread, False, origin.number
    if 2 * origin.reach >= widest:
        return True, False, origin.in_thread, origin.is_superseded, origin.number
    return True, True, origin.in_thread, False, -origin.reach


def _mark_shared(origin: Origin, shared: Set[tuple[str, str]]) -> Origin:
    path = origin.place.rpartition(":")[0]
    is_shared = any((path, name) in shared for name in origin.names if name not in origin.writes)
    return msgspec.structs.replace(origin, is_shared=is_shared)
