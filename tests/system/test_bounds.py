"""What a command in the sandbox cannot do to the user's terminal, memory and processes; and when it ends."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reprobuild.errors import EngineError
from reprobuild.sandbox import Root, command, run_in_root
from tests.conftest import ROOT
from tests.system.samples import EPOCH
from tests.terminal import HOSTILE, at_terminal

_IN_SANDBOX = """
from pathlib import Path
from reprobuild.sandbox import Root, run_in_root
said = run_in_root(Root(folder=Path(sys.argv[1])), ["python3.11", "-c", sys.argv[2]], epoch=0, purpose="try")
print(said.decode().strip())
"""


def test_packages_cannot_reach_the_terminal(root: Path) -> None:
    """They would type a command into the user's shell, write to the screen, or read a password."""
    assert at_terminal(_IN_SANDBOX, root, HOSTILE, typed=b"password") == ("0\n", b"", 8)


def test_output_without_an_end_is_an_error(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "MOST_OUTPUT", 4 << 20)
    with pytest.raises(
        EngineError, match="could not flood: `cat` wrote more than 4 MiB to its standard output"
    ):
        run_in_root(Root(folder=root), ["cat", "/dev/zero"], epoch=EPOCH, purpose="flood")


def test_a_bomb_of_processes_ends_at_the_limit_for_root(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel knows a limit for root; on others docs/hostile.md tells of it."""
    monkeypatch.setattr(command, "PROCESSES", 400)
    version = tuple(int(part) for part in platform.release().split(".")[:2])
    bomb = (
        "my $n = 0; for (1 .. 600) { my $p = fork; last unless defined $p; if (!$p) { sleep 98765; exit } $n++ }"
        "print $n"
    )
    made = int(run_in_root(Root(folder=root), ["perl", "-e", bomb], epoch=EPOCH, purpose="bomb"))
    assert made < 400 if version >= (6, 14) else made == 600
    assert Path("/proc/sys/kernel/pid_max").read_text() != "400\n"


_WAITING = """
import sys
from pathlib import Path
from reprobuild.cli.interrupt import listen
from reprobuild.sandbox import Root, run_in_root
if sys.argv[2] == "listen":
    listen()
script = "sleep 98761 & setsid sleep 98761 & sleep 98761"
run_in_root(Root(folder=Path(sys.argv[1])), ["sh", "-c", script], epoch=0, purpose="wait")
"""


def sleepers() -> list[Path]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes() == b"sleep\x0098761\0":
                found.append(path)
        except OSError:
            continue
    return found


def there_are(count: int) -> bool:
    """Wait until there are so many sleepers."""
    deadline = time.monotonic() + 60
    while len(sleepers()) != count and time.monotonic() < deadline:
        time.sleep(0.05)
    return len(sleepers()) == count


@pytest.mark.parametrize(
    ("signum", "listening"),
    [
        (signal.SIGINT, True),
        (signal.SIGTERM, True),
        (signal.SIGHUP, True),
        (signal.SIGINT, False),
        (signal.SIGKILL, False),
    ],
)
def test_all_ends_with_the_program_that_started_it(root: Path, signum: int, listening: bool) -> None:
    """It hears no signal of the terminal, and is ended by the one that waits for it, or by the kernel."""
    with subprocess.Popen(
        [sys.executable, "-c", _WAITING, root, "listen" if listening else "no"], cwd=ROOT, start_new_session=True,
        stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            assert there_are(3)
            os.kill(process.pid, signum)
            process.wait(60)
        finally:
            process.kill()
    assert there_are(0)
    assert str(root) not in Path("/proc/self/mountinfo").read_text()
