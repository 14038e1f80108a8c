"""A terminal at which a test sits: it types, reads, and resizes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence

import pytest

from tests.conftest import ROOT

SECONDS = 60


class Screen:
    """A terminal with a program on it: a person types, and reads."""

    def __init__(self, upper: int, process: subprocess.Popen[bytes]) -> None:
        self.upper, self.process, self.text = upper, process, ""

    def type(self, text: str) -> None:
        os.write(self.upper, text.encode())

    def wait_for(self, text: str) -> str:
        """Read until the screen has a text, from where the last one was; return what stands before it."""
        deadline = time.monotonic() + SECONDS
        while text not in self.text:
            ready, _, _ = select.select([self.upper], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"no {text!r} on the screen: {self.text!r}"
            try:
                self.text += os.read(self.upper, 4096).decode(errors="replace")
            except OSError:  # the program has ended
                pytest.fail(f"no {text!r} on the screen: {self.text!r}")
        before, _, self.text = self.text.partition(text)
        return before

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.upper, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


@contextlib.contextmanager
def screen(argv: Sequence[str], env: Mapping[str, str]) -> Iterator[Screen]:
    """Start a program at a terminal of 30 rows and 90 columns; its settings must be as before at the end."""
    upper, lower = pty.openpty()
    fcntl.ioctl(upper, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 90, 0, 0))
    before = termios.tcgetattr(lower)
    with subprocess.Popen(argv, cwd=ROOT, env=dict(env), stdin=lower, stdout=lower, stderr=lower) as process:
        try:
            yield Screen(upper, process)
            process.wait(SECONDS)
            assert termios.tcgetattr(lower) == before
        finally:
            process.kill()
            os.close(lower)
            os.close(upper)
