"""Programs of others have no terminal: whatever they try, the user's stays as it is."""

from __future__ import annotations

import pytest

from tests.terminal import HOSTILE, at_terminal

_HEAD = """
import os, sys
from reprobuild.infra.proc import Process, SignalForwarding, feed, interact, run, stream
env, argv = {"PATH": os.defpath}, [sys.executable, "-I", "-S", "-c", sys.argv[1]]
"""
WAYS = {
    "run": "said = run(argv, env=env, purpose='test')",
    "run with input": "said = run(argv, env=env, purpose='test', stdin=b'x')",
    "feed": "said = feed(argv, [b'x'], env=env, purpose='test')",
    "begun": "said = Process(argv, env=env, purpose='test').result(60)",
    "stream": "kept = []; stream(argv, env=env, purpose='test', sink=lambda n, data: kept.append(data)); "
    "said = b''.join(kept)",
    "interact": "kept = []; interact(argv, env=env, purpose='test', sink=lambda n, data: kept.append(data), "
    "terminal=False, handing=SignalForwarding()); said = b''.join(kept)",
    "handing": "kept = []; stream(argv, env=env, purpose='test', sink=lambda n, data: kept.append(data), "
    "handing=SignalForwarding()); said = b''.join(kept)",
}


@pytest.mark.parametrize("way", WAYS)
def test_a_program_has_no_terminal(way: str) -> None:
    script = f"{_HEAD}{WAYS[way]}\nprint(said.decode().strip())"
    assert at_terminal(script, HOSTILE, typed=b"password") == ("0\n", b"", 8)


def test_a_program_for_a_person_has_a_terminal_of_its_own() -> None:
    """It gets the keys; what it types reaches itself, and the user's terminal shows what its reader prints of it."""
    script = f"""{_HEAD}
kept = []
os.dup2(terminal, 0)
code = interact(argv, env=env, purpose="test", sink=lambda n, data: kept.append(data), terminal=True,
                handing=SignalForwarding())
print(code, b"PWNED" in b"".join(kept))
"""
    assert at_terminal(script, HOSTILE, typed=b"password") == ("0 True\n", b"", 0)


def test_a_program_on_the_terminal_does_all_of_it() -> None:
    """The control: the same code as a job of the user's shell; and where the user is to be asked, it may ask."""
    script = "import subprocess; subprocess.run([sys.executable, '-c', sys.argv[1]], close_fds=False)"
    _, shown, _ = at_terminal(script, HOSTILE, typed=b"password")
    assert b"\033]0;PWNED" in shown
    assert b"READ passwordtouch PWNED" in shown
    asking = f"{_HEAD}said = run(argv, env=env, purpose='test', terminal=True)\nprint(said.decode().strip())"
    said, shown, _ = at_terminal(
        asking, "import os; print(os.write(os.open('/dev/tty', os.O_RDWR), b'Password: '))"
    )
    assert (said, shown) == ("10\n", b"Password: ")


def test_what_is_started_in_turn_ends_with_it() -> None:
    """Past its time, a program takes along what it started: no signal of a terminal reaches that."""
    script = """
import os, sys, time
from pathlib import Path
from reprobuild.infra.proc import ProcessTimeoutError, run
inner = "import subprocess, sys; p = subprocess.Popen(['sleep', '98762']); sys.stderr.write(str(p.pid)); p.wait()"
try:
    run([sys.executable, "-c", inner], env={"PATH": os.defpath}, purpose="test", timeout=2)
except ProcessTimeoutError:
    pass
deadline = time.monotonic() + 10
def left():
    return [one for one in Path("/proc").glob("[0-9]*/cmdline") if b"98762" in read(one) and b"sleep" in read(one)[:6]]
def read(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""
while left() and time.monotonic() < deadline:
    time.sleep(0.05)
print(left())
"""
    assert at_terminal(script)[0] == "[]\n"
