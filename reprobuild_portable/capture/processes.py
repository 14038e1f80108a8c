"""Execution of other programs within a budget."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from typing import IO, Any, Iterator, List, Mapping, Optional, Sequence, Tuple

from reprobuild_portable.capture.limits import TICK
from reprobuild_portable.capture.model import PROGRAM, Context, GaveUpError
from reprobuild_portable.search_path import absolute_path, find_program


def _run(
    argv: Sequence[str], context: Context, *, env: Optional[Mapping[str, str]] = None, cwd: Optional[str] = None,
    stdin: bytes = b"", out: Optional[IO[bytes]] = None, most: int = 0, codes: Sequence[int] = (0,),
) -> bytes:  # fmt: skip
    """Run a program to its end and return its output.

    The program and its children are killed at the deadline. Output goes to a file, so that a child that
    keeps it open cannot keep us. If `most` is not 0, a program that writes more bytes is ended.
    """
    with contextlib.ExitStack() as stack:
        output = out or stack.enter_context(tempfile.TemporaryFile(dir=context.scratch))
        input_file: Any = subprocess.DEVNULL
        if stdin:
            input_file = stack.enter_context(tempfile.TemporaryFile(dir=context.scratch))
            input_file.write(stdin)
            input_file.seek(0)
        seconds = context.left()
        with _WATCHER.lock:  # so that `end_all` finds each program that has started
            if _WATCHER.closed:
                raise GaveUpError("failed")
            environment = absolute_path(context.environ if env is None else env)
            child = subprocess.Popen(
                list(argv), env=environment, cwd=cwd, stdin=input_file, stdout=output, stderr=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
            program = Watched(child.pid, output.fileno(), time.monotonic() + seconds, most)
            _WATCHER.programs.append(program)
        code, reason = _wait(child, program)
        if reason:
            raise GaveUpError(reason, f"`{os.path.basename(argv[0])}` was ended")
        if code not in codes:
            raise GaveUpError("failed", f"`{os.path.basename(argv[0])}` exited {code}")
        if out:
            return b""
        if most and os.fstat(output.fileno()).st_size > most:
            raise GaveUpError("too-large")
        output.seek(0)
        return output.read()


def _program(name: str, context: Context) -> Optional[str]:
    """Return the file of a program, or None.

    Only absolute entries of PATH are searched.
    """
    return find_program(name, context.environ)


class Watched:
    """A running program and its limits.

    The limits are a deadline, and the bytes that it may write into a file (0: any number).
    """

    def __init__(self, group: int, number: int, deadline: float, most: int) -> None:
        self.group = group
        self.number = number
        self.deadline = deadline
        self.most = most
        self.reason = ""

    def look(self) -> None:
        """End the program if it is over its budget."""
        if time.monotonic() > self.deadline:
            self.end("timed-out")
        elif self.most and os.fstat(self.number).st_size > self.most:
            self.end("too-large")

    def end(self, reason: str) -> None:
        """Kill the program and its children."""
        self.reason = self.reason or reason
        with contextlib.suppress(OSError):
            if os.name == "nt":  # any signal ends the program, and its children remain
                os.kill(self.group, signal.SIGTERM)
            else:
                os.killpg(self.group, signal.SIGKILL)


class Watcher:
    """One thread that watches all running programs.

    It ends soon after the last of them. A thread or a timer for each program would take as long as git does.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Set the initial state.

        A forked process has no thread of its parent.
        """
        self.lock = threading.Lock()
        self.programs: List[Watched] = []
        self.alive = False
        self.closed = False

    @contextlib.contextmanager
    def watching(self, program: Watched) -> Iterator[None]:
        """Watch one program while the body runs.

        An exception in the body ends the program.
        """
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
        """Check the programs every `TICK` seconds."""
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
        """End the programs of parts that were left behind.

        These parts can start no more programs.
        """
        self.closed = True
        if self.lock.acquire(timeout=1.0):  # wait for a program that is being started
            self.lock.release()
        for program in list(self.programs):
            program.end("failed")


_WATCHER = Watcher()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_WATCHER.reset)


def _wait(child: subprocess.Popen[bytes], program: Watched) -> Tuple[int, str]:
    """Return the exit code, and the reason of a kill.

    `wait` with a time limit sleeps longer than git runs.
    """
    with _WATCHER.watching(program), contextlib.suppress(ChildProcessError):
        # The process is not collected yet, so that no other has its number while it may be killed.
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        else:  # macOS, Windows
            child.wait()
    return child.wait(), program.reason
