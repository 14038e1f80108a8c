"""Numbers of forks, and names of forked children.

Forks are counted from interpreter start on.

A child that is forked before any seeding is named here, in the environment, for its own children, too; later
`seeding.place` does it, which knows workers.
"""

# ruff: noqa: TID251  the environment is what it writes

import os
import sys
from _thread import _local
from itertools import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator, List

ABOVE = "REPROBUILD_PLACE"  # the name of this process as a forked child, or of the child that started it
LONGEST = 1000  # programs may fork and start each other without end
# Callers of forks without names: workers have numbers of their own, and may get their tasks by chance; a program of
# `subprocess` begins as a first process does, with preexec_fn (for which it forks) and without.
NAMELESS = ("multiprocessing.popen_fork", "multiprocessing.forkserver", "subprocess")

told: "List[Callable[[int, bool], None]]" = []  # names children instead of us: number, and whether named
_numbers: "List[Iterator[int]]" = [count(1)]  # of this process's forks
_forking: "Any" = _local()  # the fork of this thread: two threads may fork at once


def _note_fork() -> None:
    _forking.number = next(_numbers[0])


def _renew_child() -> None:
    _numbers[:] = [count(1)]
    try:
        forker = sys._getframe(1).f_globals.get("__name__")
    except ValueError:  # there is no caller above
        forker = None
    (told[0] if told else _leave_fork_name)(_forking.number, forker not in NAMELESS)


def _leave_fork_name(number: int, named: bool) -> None:
    above = os.environ.get(ABOVE, "")
    if named and len(above) <= LONGEST:
        os.environ[ABOVE] = f"{above}/fork {number}".lstrip("/")
    elif named:
        from reprobuild_runtime.seeding import process_id

        process_id.leave_name(f"{above}/fork {number}")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_note_fork, after_in_child=_renew_child)
