"""Signals for this program, passed on to its job.

The job is the program that works in its place. A sender (a scheduler, a person at the terminal) reaches only
its starter. The job may have work to save, so it gets each signal. Upon a request to end, it has some time
before it is forced; upon a second Ctrl-C, it does not. If it could not be forced, the next request to end is
for this program.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

# Slurm's SIGKILL comes 30 s after its SIGTERM by default (KillWait in slurm.conf(5)). It would leave a
# daemon's container running, so some of that time is reserved for its removal.
GRACE_SECONDS = 25.0
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # Windows ends a program by any signal
_HANGUP = getattr(signal, "SIGHUP", None)
LAST_SECONDS = 1.0  # from SIGTERM to SIGKILL for a program that was asked before


class SignalForwarding(Struct, frozen=True, kw_only=True):
    """The way in which a program receives signals.

    `tell` sends it one, if it is not enough to send it to the program itself. `end` ends it if it still runs
    `seconds` after the request, by the signal `last` if that is None. `instead` maps signals to their
    replacements.
    """

    tell: Callable[[int], None] | None = None
    end: Callable[[], None] | None = None
    last: int = KILL
    seconds: float | None = None
    instead: Mapping[int, int] = {}


_jobs: list[_Job] = []


def forward_signal(signum: int) -> bool:
    """Pass a signal to the job, from a signal-handling thread.

    Returns:
        False if there is no job, or the wait for it is over: the signal is then for this program.
    """
    jobs = _jobs[-1:]
    return bool(jobs) and jobs[0].hear(signum)


@contextlib.contextmanager
def forward_signals(
    tell: Callable[[int], None], end: Callable[[], None], handing: SignalForwarding
) -> Iterator[None]:
    """Pass signals to a job within this block.

    Args:
        tell: sends it one; it must not block, and not fail if the job has ended.
        end: ends it if `handing` has no other way.
        handing: the way of signals.
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
            if signum == signal.SIGINT or (overdue and signum in (signal.SIGTERM, _HANGUP)):
                return False
        if signum == _HANGUP:  # the terminal has gone; some programs would reload their settings
            signum = signal.SIGTERM
        if signum in (signal.SIGINT, signal.SIGTERM) and self._asked is None:
            self._asked = time.monotonic()
            self.clock.start()
        self._tell(self._instead.get(signum, signum))
        return True
