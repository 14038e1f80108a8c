"""Ctrl-C and SIGTERM end the command wherever it is.

CPython can lose the moment: a signal that comes between its last look for signals and the system call
that then blocks is only acted on when that call returns, here up to ten minutes later (seen in 2 of 100
runs). So a thread is told of each signal and sends it again until the main thread has heard it.
"""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

AGAIN_SECONDS = 0.3


def listen() -> None:
    """Make SIGINT and SIGTERM raise `KeyboardInterrupt` in the main thread; one that is ignored stays so."""
    heard = threading.Event()
    main = threading.get_ident()

    def interrupt(signum: int, frame: FrameType | None) -> None:
        heard.set()
        raise KeyboardInterrupt

    wanted = [s for s in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(s) is not signal.SIG_IGN]
    for signum in wanted:
        signal.signal(signum, interrupt)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)

    def repeat() -> None:
        while came := os.read(reading, 1):
            while came[0] in wanted and not heard.wait(AGAIN_SECONDS):
                signal.pthread_kill(main, came[0])

    threading.Thread(target=repeat, daemon=True, name="signals").start()
