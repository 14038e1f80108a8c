"""A command run to its end, also after a signal."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import NoReturn

from private_apt import say

COMMAND_GRACE_SECONDS = 15


class SignalError(Exception):
    """A signal to end this program."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"signal {signum}")
        self.signum = signum


def raise_interrupted(signum: int, _frame: FrameType | None) -> NoReturn:
    raise SignalError(signum)


def listen_to_signals(handler: Callable[[int, FrameType | None], object] | signal.Handlers) -> None:
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, handler)


def run_command(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Run the command to its end.

    A signal to this program is passed on, and the command gets time to end.
    """
    program = shutil.which(argv[0], path=env["PATH"])
    if program is None:
        say(f"{argv[0]}: command not found")
        return 127
    try:
        process = subprocess.Popen(argv, executable=program, env=env)
    except OSError as error:
        say(f"{argv[0]}: {error.strerror}")
        return 126
    code: int | None = None
    while code is None:
        try:
            code = process.wait()
        except SignalError as interrupted:
            code = wind_up(process, interrupted.signum)
    return code if code >= 0 else 128 - code


def wind_up(process: subprocess.Popen[bytes], signum: int) -> int | None:
    """Pass a signal on, and give the command some time.

    Returns the exit code, or None after another signal.
    """
    # The terminal has already sent Ctrl-C to the command, which may take a second one badly.
    if signum != signal.SIGINT or not sys.stdin.isatty():
        process.send_signal(signum)
    try:
        return process.wait(COMMAND_GRACE_SECONDS)
    except SignalError as another:
        process.send_signal(another.signum)
        return None
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def exec_unchanged(argv: Sequence[str]) -> NoReturn:
    """Become the command, with this program's own environment."""
    try:
        os.execvp(argv[0], list(argv))
    except OSError as error:
        say(f"{argv[0]}: {error.strerror}")
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)
