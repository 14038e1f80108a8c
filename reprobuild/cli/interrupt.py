"""Signals that end the command or reach its job.

Ctrl-C, SIGTERM and SIGHUP end the command at any place, or go on to the job that `run` has started.

CPython can act late: a signal that comes between its last look for signals and the system call that then
blocks is only acted on when that call returns, here up to ten minutes later (seen in 2 of 100 runs). So a
thread receives each signal. It passes the signal to a job if there is one; else it sends it again until the
main thread has handled it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from types import FrameType

from reprobuild.infra.cancel import INTERRUPTION
from reprobuild.infra.proc.session import end_all
from reprobuild.infra.proc.signals import forward_signal

AGAIN_SECONDS = 0.3
ENDING = ("SIGINT", "SIGTERM", "SIGHUP")
FOR_JOBS = ("SIGUSR1", "SIGUSR2")


def install_signal_handlers() -> None:
    """Make ending signals raise `KeyboardInterrupt` in the main thread.

    A signal that goes to a job is not raised. A signal that is ignored stays so: SIGHUP under nohup(1).
    On Windows, Ctrl-C does that by itself.
    """
    if os.name == "nt":
        return
    ending, heard = threading.Event(), threading.Event()
    main = threading.get_ident()

    raised = float("-inf")

    def interrupt(signum: int, frame: FrameType | None) -> None:
        nonlocal raised
        now = time.monotonic()
        # The thread below has seen that it is for this program. What it sends again must not end the clean-up.
        if ending.is_set() and now - raised > AGAIN_SECONDS:
            raised = now
            heard.set()
            raise KeyboardInterrupt

    signals = _list_signals(ENDING)
    for signum in signals:
        signal.signal(signum, interrupt)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)

    def decide() -> None:
        came = os.read(reading, 1)
        while forward_signal(came[0]) or came[0] not in signals:
            came = os.read(reading, 1)
        ending.set()
        while not heard.is_set():
            signal.pthread_kill(main, came[0])
            heard.wait(AGAIN_SECONDS)
        end_all()  # other threads wait for programs that get no signals of the terminal
        INTERRUPTION.say()  # and for servers

    threading.Thread(target=decide, daemon=True, name="signals").start()


def leave_signals_to_jobs() -> None:
    """Leave signals without a fixed meaning to jobs.

    They do not end this program. Slurm's `--signal=USR1@90` sends one 90 s before the end: a job then saves
    its state.
    """
    for signum in _list_signals(FOR_JOBS):
        signal.signal(signum, lambda *_: None)


def _list_signals(names: tuple[str, ...]) -> list[signal.Signals]:
    """Return the signals of these names that are not ignored."""
    signals = [getattr(signal, name) for name in names]
    return [signum for signum in signals if signal.getsignal(signum) is not signal.SIG_IGN]
