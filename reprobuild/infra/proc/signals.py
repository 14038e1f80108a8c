"""Signals that reach this program and are meant for the job: the program that works in its place.

Who sends a job a signal (a scheduler, a person at the terminal) reaches its starter. The job may have work to save, so
it is told of each. Asked to end, it has some time before it is made to; asked again by Ctrl-C, it has not. Where it
could not be made to, the next wish to end is meant for this program.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

# Slurm's SIGKILL comes 30 s after its SIGTERM, unless a site says otherwise (KillWait in slurm.conf(5)). It would leave
# a container of a daemon to run on, so some of that time is kept for its removal.
GRACE_SECONDS = 25.0
LAST_SECONDS = 1.0  # from SIGTERM to SIGKILL for what was asked before


class SignalForwarding(Struct, frozen=True, kw_only=True):
    """How a program is told of signals.

    `tell` sends it one, where it is not enough to send it to the program itself. `end` makes it end where it goes on
    `seconds` after it was asked to, by the signal `last` where that is None. `instead` are signals that others take the
    place of.
    """

    tell: Callable[[int], None] | None = None
    end: Callable[[], None] | None = None
    last: int = signal.SIGKILL
    seconds: float | None = None
    instead: Mapping[int, int] = {}


_jobs: list[_Job] = []


def hand_on(signum: int) -> bool:
    """Tell the job of a signal; for a thread that is told of signals.

    Returns:
        False where there is no job, or it is not to be waited for any longer: this program is then meant itself.
    """
    jobs = _jobs[-1:]
    return bool(jobs) and jobs[0].hear(signum)


@contextlib.contextmanager
def handed_on(
    tell: Callable[[int], None], end: Callable[[], None], handing: SignalForwarding
) -> Iterator[None]:
    """Let a job hear of signals in this block.

    Args:
        tell: sends it one; it must not wait, and not fail where the job has ended.
        end: makes it end where `handing` has nothing else.
        handing: how it is told.
    """
    seconds = GRACE_SECONDS if handing.seconds is None else handing.seconds
    job = _Job(tell, handing.end or end, seconds, handing.instead)
    _jobs.append(job)
    try:
        yield
    finally:
        _jobs.remove(job)
        job.clock.cancel()


class _Job:
    def __init__(
        self, tell: Callable[[int], None], end: Callable[[], None], seconds: float, instead: Mapping[int, int]
    ) -> None:
        self.clock = threading.Timer(seconds, end)
        self.clock.daemon = True
        self._tell, self._seconds, self._instead = tell, seconds, instead
        self._asked: float | None = None

    def hear(self, signum: int) -> bool:
        if self._asked is not None:
            overdue = time.monotonic() - self._asked > self._seconds + LAST_SECONDS
            if signum == signal.SIGINT or (overdue and signum in (signal.SIGTERM, signal.SIGHUP)):
                return False
        if signum == signal.SIGHUP:  # the terminal has gone; some take that for a wish to read settings again
            signum = signal.SIGTERM
        if signum in (signal.SIGINT, signal.SIGTERM) and self._asked is None:
            self._asked = time.monotonic()
            self.clock.start()
        self._tell(self._instead.get(signum, signum))
        return True
