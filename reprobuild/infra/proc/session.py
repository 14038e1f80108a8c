"""Programs in a session of their own: no terminal is theirs, and what they start ends with them.

A program on the user's terminal can type into it (the ioctl TIOCSTI) and read what the user types, and most programs
run code of others. So each gets a session without a terminal, but for those that ask the user for a password
themselves. It does not hear Ctrl-C: the thread that waits for it ends it, or `end_all`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator

GRACE_SECONDS = 10.0  # from SIGTERM to SIGKILL

_guard = threading.Lock()
_running: set[subprocess.Popen[bytes]] = set()


@contextlib.contextmanager
def running(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Let `end_all` end a program in this block."""
    with _guard:
        _running.add(child)
    try:
        yield
    finally:
        with _guard:
            _running.discard(child)


def end_all() -> None:
    """Ask all programs to end for which a thread waits that no signal reaches."""
    with _guard:
        for child in _running:
            child.terminate()


def kill(child: subprocess.Popen[bytes]) -> None:
    """End a program that has not ended, with what it started."""
    if child.poll() is None:
        _kill_group(child)
        child.kill()
        child.wait()


def end(child: subprocess.Popen[bytes], seconds: float) -> None:
    """Ask a program to end, and kill it where it has not after some seconds; what it started ends in any case."""
    if child.poll() is not None:
        return
    child.terminate()
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(seconds)
    finally:
        _kill_group(child)
        child.kill()  # nothing happens where it has ended
        child.wait()


def _kill_group(child: subprocess.Popen[bytes]) -> None:
    """Kill the group that a program leads; there is no such group where it has the user's terminal.

    The number of a group is no other's as long as it has a member.
    """
    with contextlib.suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)
