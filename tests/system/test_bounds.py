"""What a command in the sandbox cannot do to the user's terminal, memory and processes; and when it ends."""

from __future__ import annotations

import os
import platform
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reprobuild.errors import EngineError
from reprobuild.infra.proc.errors import ProcessFailedError, ProcessTimeoutError
from reprobuild.infra.sandbox import command
from reprobuild.infra.sandbox.command import run_in_root
from reprobuild.infra.sandbox.model import Root
from tests.conftest import ROOT
from tests.system.samples import EPOCH
from tests.system.test_sandbox import run_as_ordinary_user
from tests.terminal import HOSTILE, at_terminal

_IN_SANDBOX = """
from pathlib import Path
from reprobuild.infra.sandbox.model import Root
from reprobuild.infra.sandbox.command import run_in_root
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
from reprobuild.cli.interrupt import install_signal_handlers
from reprobuild.infra.sandbox.model import Root
from reprobuild.infra.sandbox.command import run_in_root
if sys.argv[2] == "install_signal_handlers":
    install_signal_handlers()
run_in_root(Root(folder=Path(sys.argv[1])), sys.argv[3:], epoch=0, purpose="wait")
"""
THREE = ["sh", "-c", "sleep 98761 & setsid sleep 98761 & sleep 98761"]
# It takes back the wish to end with its parent (PR_SET_PDEATHSIG), and leaves its session and its group.
_LOOSE = """
import ctypes, os, sys
for _ in range(2):
    os.fork()
ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
try:
    os.setsid()
except PermissionError:
    pass
os.execvp(sys.argv[1], sys.argv[1:])
"""
FOUR_LOOSE = ["python3.11", "-c", _LOOSE, "sleep", "98761"]


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


@pytest.mark.parametrize(("argv", "count"), [(THREE, 3), (FOUR_LOOSE, 4)], ids=["plain", "loose"])
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
def test_all_ends_with_the_program_that_started_it(
    root: Path, signum: int, listening: bool, argv: list[str], count: int
) -> None:  # fmt: skip
    """It hears no signal of the terminal, and is ended by the one that waits for it, or by the kernel."""
    with subprocess.Popen(
        [sys.executable, "-c", _WAITING, root, "listen" if listening else "no", *argv], cwd=ROOT,
        start_new_session=True, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            assert there_are(count)
            os.kill(process.pid, signum)
            process.wait(60)
        finally:
            process.kill()
    assert there_are(0)
    assert str(root) not in Path("/proc/self/mountinfo").read_text()


def test_the_end_of_the_time_ends_all_before_the_return(root: Path) -> None:
    with pytest.raises(ProcessTimeoutError):
        run_in_root(Root(folder=root), FOUR_LOOSE, epoch=EPOCH, purpose="wait", timeout=3)
    assert not sleepers()


def test_too_much_output_ends_all_before_the_return(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "MOST_OUTPUT", 4 << 20)
    flood = ["sh", "-c", "cat /dev/zero & exec sleep 98761"]
    with pytest.raises(EngineError, match="wrote more than 4 MiB"):
        run_in_root(
            Root(folder=root), ["python3.11", "-c", _LOOSE, *flood], epoch=EPOCH, purpose="flood", timeout=60
        )
    assert not sleepers()


_TIMED = """
import sys
from pathlib import Path
from reprobuild.infra.proc.errors import ProcessTimeoutError
from reprobuild.realise.unpack import unpack_root
from reprobuild.infra.sandbox.model import Root
from reprobuild.infra.sandbox.command import run_in_root
root = Path(sys.argv[2]) / "root"
root.mkdir()
unpack_root(Path(sys.argv[1]), root)
try:
    run_in_root(Root(folder=root), sys.argv[3:], epoch=0, purpose="wait", timeout=3)
except ProcessTimeoutError:
    print("ended")
"""


def test_the_end_of_the_time_ends_all_of_an_ordinary_user(
    tree: str, store_blob: Path, shared_tmp: Path
) -> None:
    said = run_as_ordinary_user(_TIMED, store_blob, shared_tmp, *map(Path, FOUR_LOOSE))
    assert said == "ended\n"
    assert not sleepers()


def test_process_1_hears_nothing_from_inside(root: Path) -> None:
    send = "import os, signal\nfor one in signal.valid_signals(): os.kill(1, one)\nprint(os.getpid() > 1)"
    said = run_in_root(Root(folder=root), ["python3.11", "-c", send], epoch=EPOCH, purpose="send")
    assert said == b"True\n"


def test_a_signal_to_the_group_ends_the_command_alone(root: Path) -> None:
    """The launcher is in no group of the command, or it would be stopped, and the time would run out."""
    with pytest.raises(ProcessFailedError) as err:
        run_in_root(Root(folder=root), ["sh", "-c", "kill -KILL 0"], epoch=EPOCH, purpose="send", timeout=60)
    assert err.value.code == -signal.SIGKILL
    stop = "import os, signal; os.kill(0, signal.SIGSTOP)"
    with pytest.raises(ProcessTimeoutError):
        run_in_root(Root(folder=root), ["python3.11", "-c", stop], epoch=EPOCH, purpose="stop", timeout=2)


def test_the_signal_that_ends_a_command_is_told(root: Path) -> None:
    with pytest.raises(ProcessFailedError, match="exited -11") as err:
        run_in_root(Root(folder=root), ["sh", "-c", "kill -SEGV $$"], epoch=EPOCH, purpose="fail")
    assert err.value.code == -signal.SIGSEGV


_ORPHAN = """
import glob, subprocess, time
subprocess.run(["sh", "-c", "sleep 0.1 &"], check=True)
time.sleep(1)
print(["zombie" for name in glob.glob("/proc/[0-9]*/status") if "(zombie)" in open(name).read()])
"""


def test_processes_without_a_parent_are_waited_for(root: Path) -> None:
    """They would count to the limit of processes."""
    said = run_in_root(Root(folder=root), ["python3.11", "-c", _ORPHAN], epoch=EPOCH, purpose="look")
    assert said == b"[]\n"


# Its standard input is /dev/null of the machine where the program that runs it gives nothing.
_CHANGE = """
import errno, os
for change in (
    lambda: os.chmod("/dev/null", 0o1666), lambda: os.utime("/dev/zero", (1, 1)), lambda: os.chmod("/proc/misc", 0o640),
    lambda: os.chmod("/proc/keys", 0o640), lambda: os.fchmod(0, 0o1666), lambda: os.utime(0, (1, 1)),
):
    try:
        change()
    except OSError as err:
        print(errno.errorcode[err.errno])
    else:
        print("changed")
"""


def test_modes_and_times_of_devices_stay(root: Path) -> None:
    paths = [Path(name) for name in ("/dev/null", "/dev/zero", "/proc/misc")]
    before = [path.stat() for path in paths]
    try:
        said = run_in_root(Root(folder=root), ["python3.11", "-c", _CHANGE], epoch=EPOCH, purpose="change")
        after = [path.stat() for path in paths]
    finally:
        for path, status in zip(paths[:2], before, strict=False):
            path.chmod(stat.S_IMODE(status.st_mode))
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        paths[2].chmod(stat.S_IMODE(before[2].st_mode))
    assert said.split() == [b"EROFS"] * 6
    assert [(one.st_mode, one.st_mtime_ns) for one in after] == [
        (one.st_mode, one.st_mtime_ns) for one in before
    ]


_LOOK = """
import os
for name in sorted(os.listdir("/proc")): print(name)
for name in ("cpuinfo", "meminfo", "sys/kernel/ostype"): assert open("/proc/" + name).read(), name
for name in ("version", "sys/kernel/printk_ratelimit", "new"):
    try: os.close(os.open("/proc/" + name, os.O_WRONLY | os.O_CREAT))
    except OSError as err: print(err.strerror)
assert not os.path.exists("/proc/sys/fs/binfmt_misc/register")
"""
_MASKED = 'mount -t tmpfs tmpfs /proc/fs && exec "$@"'


def test_processes_of_the_machine_are_absent_where_no_new_proc_can_be_mounted(root: Path) -> None:
    """As in most containers, which mask a part of `/proc`; docs/hostile.md has the list."""
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", _MASKED, "sh", sys.executable, "-c", f"import sys{_IN_SANDBOX}", root,
         _LOOK],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    listed = ["cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "sys", "uptime", "version"]
    assert done.stdout.splitlines() == [*listed, *["Read-only file system"] * 3]
