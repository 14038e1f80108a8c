"""Programs in their own session, ended together with their children.

They have no terminal: a program on the user's terminal can type into it (the ioctl TIOCSTI) and read the
user's input, and most programs run untrusted code. So each gets a session without a terminal, except those
that ask the user for a password themselves. It does not receive Ctrl-C: the thread that waits for it ends it,
or `end_all`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from reprobuild.errors import EngineError

GRACE_SECONDS = 10.0  # from SIGTERM to SIGKILL
CLEANUPS = 2  # attempts, if the user interrupts them

_guard = threading.Lock()
_running: set[subprocess.Popen[bytes]] = set()
_cleaning = threading.local()  # `active` while this thread is in `clean_up`


@contextlib.contextmanager
def register_program(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Let `end_all` end a program in this block, unless it cleans up."""
    if getattr(_cleaning, "active", False):
        yield
        return
    with _guard:
        _running.add(child)
    try:
        yield
    finally:
        with _guard:
            _running.discard(child)


def end_all() -> None:
    """Terminate all programs in `register_program` blocks.

    Signals do not reach the threads that wait for them.
    """
    with _guard:
        for child in _running:
            child.terminate()


def clean_up(remove: Callable[[], object]) -> None:
    """Remove the results of a program by another one, in spite of signals.

    `end_all` spares that one, and after `KeyboardInterrupt` it is run again. No code of podman tells whether it removed
    something: it may exit with 0 after SIGTERM (seen with 4.3). An error is not reported: an earlier one would be lost.
    """
    interrupt = None
    _cleaning.active = True
    try:
        for _ in range(CLEANUPS):
            try:
                remove()
                break
            except KeyboardInterrupt as err:
                interrupt = err
            except EngineError:
                break
    finally:
        _cleaning.active = False
    if interrupt:
        raise interrupt


def kill_program(child: subprocess.Popen[bytes]) -> None:
    """Kill a running program, and its children."""
    if child.poll() is None:
        _kill_group(child)
        child.kill()
        child.wait()


def end_program(child: subprocess.Popen[bytes], seconds: float, *, tree: bool = False) -> None:
    """Terminate a program, and kill it after some seconds.

    Its children are killed in any case if it has a group of its own, or with `tree`.
    """
    if child.poll() is not None:
        return
    below = _find_descendants(child.pid) if tree else []
    child.terminate()
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(seconds)
    finally:
        _kill_group(child)
        child.kill()  # no effect on an ended program
        child.wait()
        for pid, begin in below:
            if begin and _read_parent(pid)[1] == begin:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)


def _find_descendants(pid: int) -> list[tuple[int, str]]:
    """Return the processes below another, each with the time of its start.

    A program on the user's terminal has no group of its own, and its children can outlive it: git's do, which
    unpack what a server sends. Without Linux's /proc there are none.
    """
    processes = {int(path.name): _read_parent(int(path.name)) for path in Path("/proc").glob("[1-9]*")}
    descendants, level = [], {pid}
    while level := {number for number, (parent, _) in processes.items() if parent in level}:
        descendants += [(number, processes.pop(number)[1]) for number in level]  # numbers can be reused
    return descendants


def _read_parent(pid: int) -> tuple[int, str]:
    """Return the parent of a process and the time of its start, or 0 and "".

    https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return int(fields[1]), fields[19].decode()
    except (OSError, IndexError, ValueError):
        return 0, ""


def _kill_group(child: subprocess.Popen[bytes]) -> None:
    """Kill the process group that a program leads.

    A program on the user's terminal leads no such group. The number of a group is not reused as long as it
    has a member. Windows has no such groups.
    """
    if os.name == "nt":
        return
    with contextlib.suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)
