"""A terminal, and a program that leads a session on it, as a shell's jobs do."""

from __future__ import annotations

import array
import fcntl
import os
import select
import subprocess
import sys
import termios
from pathlib import Path

ROOT = Path(__file__).parent.parent
_TAKE = "import os, sys; terminal = os.open(sys.argv[1], os.O_RDWR); del sys.argv[1]\n"

# What hostile code does with a terminal: it types, it writes, it reads, by /dev/tty and by what it was given.
HOSTILE = r"""
import fcntl, os, select, termios
found = []
try:
    found.append(os.open("/dev/tty", os.O_RDWR))
except OSError:
    pass
found += [one for one in range(64) if os.isatty(one) and one not in found]
for one in found:
    for byte in b"touch PWNED\n":
        try:
            fcntl.ioctl(one, termios.TIOCSTI, bytes([byte]))
        except OSError:
            pass
    os.write(one, b"\033]0;PWNED\a")
    if select.select([one], [], [], 0)[0]:
        os.write(one, b"READ " + os.read(one, 64))
print(len(found))
"""


def at_terminal(script: str, *arguments: str | Path, typed: bytes = b"") -> tuple[str, bytes, int]:
    """Run Python code that has a controlling terminal.

    Args:
        script: the code; `sys.argv[1:]` are the arguments.
        typed: what the user has typed before it starts.

    Returns:
        What it printed; what the terminal shows; how many bytes wait to be read as typed by the user.
    """
    upper, lower = os.openpty()
    try:
        settings = termios.tcgetattr(lower)
        settings[3] &= ~(termios.ECHO | termios.ICANON)
        termios.tcsetattr(lower, termios.TCSANOW, settings)
        os.write(upper, typed)
        done = subprocess.run(
            [sys.executable, "-c", _TAKE + script, os.ttyname(lower), *map(str, arguments)], cwd=ROOT,
            capture_output=True, text=True, start_new_session=True, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        waiting = array.array("i", [0])
        fcntl.ioctl(lower, termios.FIONREAD, waiting)
        return done.stdout, _shown(upper), waiting[0]
    finally:
        os.close(upper)
        os.close(lower)


def _shown(upper: int) -> bytes:
    shown = b""
    while select.select([upper], [], [], 0.1)[0]:
        shown += os.read(upper, 4096)
    return shown
