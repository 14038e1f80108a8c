"""Run other programs, and end those that exceed their budget."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from typing import IO, Any, Iterator, List, Mapping, Optional, Sequence, Tuple

from reprobuild_portable.capture.limits import TICK
from reprobuild_portable.capture.model import PROGRAM, Context, GaveUp
from reprobuild_portable.search_path import absolute_path


def _run(
    argv: Sequence[str], context: Context, *, env: Optional[Mapping[str, str]] = None, cwd: Optional[str] = None,
    stdin: bytes = b"", out: Optional[IO[bytes]] = None, most: int = 0, codes: Sequence[int] = (0,),
) -> bytes:  # fmt: skip
    """Run a program to its end and return its output; it and its children are killed at the deadline.

    Output goes to a file, so that a child that keeps it open cannot keep us. A program that says more than `most` is
    ended, where there is one.
    """
    with contextlib.ExitStack() as stack:
        said = out or stack.enter_context(tempfile.TemporaryFile(dir=context.scratch))
        given: Any = subprocess.DEVNULL
        if stdin:
            given = stack.enter_context(tempfile.TemporaryFile(dir=context.scratch))
            given.write(stdin)
            given.seek(0)
        left = context.left()
        with _WATCHER.lock:  # so that it is known before anybody can look for what has to be ended
            if _WATCHER.closed:
                raise GaveUp("failed")
            own = absolute_path(context.environ if env is None else env)
            child = subprocess.Popen(
                list(argv), env=own, cwd=cwd, stdin=given, stdout=said, stderr=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
            program = Watched(child.pid, said.fileno(), time.monotonic() + left, most)
            _WATCHER.programs.append(program)
        code, reason = _wait(child, program)
        if reason:
            raise GaveUp(reason, f"`{os.path.basename(argv[0])}` was ended")
        if code not in codes:
            raise GaveUp("failed", f"`{os.path.basename(argv[0])}` exited {code}")
        if out:
            return b""
        if most and os.fstat(said.fileno()).st_size > most:
            raise GaveUp("too-large")
        said.seek(0)
        return said.read()


def _program(name: str, context: Context) -> Optional[str]:
    """Return the file of a program, by the absolute entries of PATH alone."""
    return shutil.which(name, path=absolute_path(context.environ)["PATH"])


class Watched:
    """A program that runs: when it must end, and how much it may write into a file (0: as much as it likes)."""

    def __init__(self, group: int, number: int, deadline: float, most: int) -> None:
        self.group = group
        self.number = number
        self.deadline = deadline
        self.most = most
        self.reason = ""

    def look(self) -> None:
        """End it where it is over its budget."""
        if time.monotonic() > self.deadline:
            self.end("timed-out")
        elif self.most and os.fstat(self.number).st_size > self.most:
            self.end("too-large")

    def end(self, reason: str) -> None:
        """Kill it and its children."""
        self.reason = self.reason or reason
        with contextlib.suppress(OSError):
            os.killpg(self.group, signal.SIGKILL)


class Watcher:
    """One thread that looks at all programs, and ends soon after the last of them.

    A thread or a timer for each would take as long as git does.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin with nothing; a forked process has no thread of its parent's."""
        self.lock = threading.Lock()
        self.programs: List[Watched] = []
        self.alive = False
        self.closed = False

    @contextlib.contextmanager
    def watching(self, program: Watched) -> Iterator[None]:
        """Watch one of the programs while the body runs; what interrupts the body ends it."""
        with self.lock:
            if not self.alive:
                self.alive = True
                threading.Thread(target=self.watch, name=PROGRAM, daemon=True).start()
        try:
            yield
        except BaseException:
            program.end("failed")
            raise
        finally:
            with self.lock:
                self.programs.remove(program)

    def watch(self) -> None:
        """Look at the programs again and again."""
        idle = 0
        while True:
            time.sleep(TICK)
            with self.lock:
                for program in self.programs:
                    program.look()
                idle = 0 if self.programs else idle + 1
                if idle > 10:
                    self.alive = False
                    return

    def end_all(self) -> None:
        """End the programs of parts that were left behind, which can start no more of them."""
        self.closed = True
        if self.lock.acquire(timeout=1.0):  # one that is being started
            self.lock.release()
        for program in list(self.programs):
            program.end("failed")


_WATCHER = Watcher()
os.register_at_fork(after_in_child=_WATCHER.reset)


def _wait(child: subprocess.Popen[bytes], program: Watched) -> Tuple[int, str]:
    """Return the code of a program, and why it was killed. `wait` with a time limit sleeps longer than git runs."""
    with _WATCHER.watching(program), contextlib.suppress(ChildProcessError):
        # Not collected yet, so that no other process can have its number while it may be killed.
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    return child.wait(), program.reason
