"""Programs with input or output in pieces, while they run."""

from __future__ import annotations

import contextlib
import os
import queue
import selectors
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO

from reprobuild.errors import EngineError, ReproError
from reprobuild.infra.proc.errors import exit_error, start_error, timeout_error
from reprobuild.infra.proc.programs import absolute_path, resolve_program
from reprobuild.infra.proc.session import GRACE_SECONDS, end_program, kill_program, register_program
from reprobuild.infra.proc.signals import LAST_SECONDS, SignalForwarding, forward_signals

PIECE = 1 << 16
WATCH_SECONDS = 1.0

Watch = Callable[[], None]


def feed(
    argv: Sequence[str],
    pieces: Iterable[bytes],
    *,
    env: Mapping[str, str],
    purpose: str,
    timeout: float = 3600,
    missing: type[ReproError] = EngineError,
    hint: str = "",
) -> bytes:
    """Run a program that reads `pieces`; return its standard output.

    The pieces are produced as the program reads them, so that none waits in memory. If one fails, the program
    is killed and the error of `pieces` is raised. For the arguments see `run`.

    Raises:
        ProcessFailedError, EngineError: as `run` does; an early end of the program with code 0 is no error.
    """
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        try:
            child = subprocess.Popen(
                resolve_program(argv, env), env=absolute_path(env), stdin=subprocess.PIPE, stdout=stdout,
                stderr=stderr, start_new_session=True,
            )  # fmt: skip
        except OSError as err:
            raise start_error(err, argv, env, purpose, None, missing, hint) from None
        assert child.stdin is not None
        stream, expired = child.stdin, threading.Event()

        def expire() -> None:
            expired.set()
            child.kill()

        clock = threading.Timer(timeout, expire)
        clock.daemon = True
        clock.start()
        try:
            with register_program(child):
                _write_pieces(stream, pieces)
                child.wait()
        finally:
            clock.cancel()
            clock.join()
            kill_program(child)
            _close(stream)
        stdout.seek(0)
        stderr.seek(0)
        if expired.is_set():
            raise timeout_error(argv, purpose, timeout)
        if child.returncode:
            raise exit_error(argv, purpose, child.returncode, stderr.read())
        return stdout.read()


def stream(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    purpose: str,
    sink: Callable[[int, bytes], None],
    timeout: float = 0,
    silence: float = 0,
    cwd: Path | None = None,
    exact: bool = False,
    terminal: bool = False,
    hint: str = "",
    handing: SignalForwarding | None = None,
    watch: Watch | None = None,
    memory: int = 0,
) -> int:
    """Run a program, pass on its output; return its code.

    The exit code is negative for a signal. If `sink` raises, or the wait is interrupted, the program is
    ended: it gets SIGTERM before SIGKILL, so that it can end its own children.

    Args:
        argv: the program and its arguments; never a shell line. Its standard input is empty. Its name is
            searched in the absolute entries of PATH.
        env: the complete environment of the program; of its PATH it gets the absolute entries.
        purpose: completes "is needed to ..." and "could not ...".
        sink: takes a stream's number (1 standard output, 2 standard error) and bytes.
        timeout: seconds until it is ended; 0 is unlimited.
        silence: seconds without output until it is ended; 0 is unlimited.
        cwd: its working directory.
        exact: the environment is the subject of the program, so its PATH stays unchanged.
        terminal: it asks the user for a password, and stays on the terminal.
        hint: the remedy when it is absent.
        handing: the way in which it gets this program's signals; without it it gets none.
        watch: called each `WATCH_SECONDS`, whether there is output or not. If it raises, the program is killed at once.
        memory: the maximum bytes of data of each of its processes, on Linux; 0 is unlimited.

    Raises:
        ProcessTimeoutError: it ran past `timeout`, or was silent for `silence`.
        EngineError: it is absent or cannot be run.
    """
    begun = StartedProgram()
    with contextlib.ExitStack() as stack:
        if handing:
            stack.enter_context(
                forward_signals(handing.tell or begun.tell, partial(begun.tell, handing.last), handing)
            )
        try:
            child = subprocess.Popen(
                resolve_program(argv, env),
                env=dict(env) if exact else absolute_path(env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=cwd,
                start_new_session=not terminal,
            )
        except OSError as err:
            raise start_error(err, argv, env, purpose, cwd, EngineError, hint) from None
        begun.begin(child)
        if memory:
            _limit_memory(child.pid, memory)
        deadline = time.monotonic() + timeout if timeout else None
        grace = GRACE_SECONDS

        def check() -> None:
            nonlocal grace
            grace, before = 0.0, grace
            if watch:
                watch()
            grace = before

        assert child.stdout is not None
        assert child.stderr is not None
        with child.stdout, child.stderr:
            try:
                with stack, contextlib.suppress(subprocess.TimeoutExpired):
                    streams = {child.stdout.fileno(): 1, child.stderr.fileno(): 2}
                    if forward_output(streams, sink, deadline, silence or None, watch and check):
                        return child.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
            except KeyboardInterrupt:
                end_program(child, LAST_SECONDS if handing else GRACE_SECONDS, tree=terminal)
                raise
            finally:
                end_program(child, grace, tree=terminal)
    passed = deadline is not None and time.monotonic() >= deadline
    raise timeout_error(argv, purpose, timeout if passed else silence, silent=not passed)


def _limit_memory(process: int, most: int) -> None:
    """Limit the data of a process that has just begun, and of those that it will start."""
    if sys.platform == "linux":
        import resource  # not on Windows

        with contextlib.suppress(ProcessLookupError):  # it has ended
            resource.prlimit(process, resource.RLIMIT_DATA, (most, most))


class StartedProgram:
    """A program that receives signals, even those during its start."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._kept: list[int] = []

    def tell(self, signum: int) -> None:
        with self._guard:
            if self._child is None:
                self._kept.append(signum)
            else:
                self._child.send_signal(signum)

    def begin(self, child: subprocess.Popen[bytes]) -> None:
        with self._guard:
            self._child = child
            for signum in self._kept:
                child.send_signal(signum)


def forward_output(
    streams: Mapping[int, int],
    sink: Callable[[int, bytes], None],
    deadline: float | None,
    silence: float | None,
    watch: Watch | None = None,
) -> bool:
    """Pass on output until both streams end.

    Return False if the deadline or a silence comes first.
    """
    clock = _OutputClock(deadline, silence, watch)
    if os.name == "nt":
        return _forward_by_threads(streams, sink, clock)
    with selectors.DefaultSelector() as selector:
        for descriptor, number in streams.items():
            selector.register(descriptor, selectors.EVENT_READ, number)
        while selector.get_map():
            rest = clock.check()
            if rest is not None and rest <= 0:
                return False
            for key, _ in selector.select(rest):
                clock.note_output()
                piece = os.read(key.fd, PIECE)
                if piece:
                    sink(key.data, piece)
                else:
                    selector.unregister(key.fd)
    return True


class _OutputClock:
    """The time until output must come, or the watch is called."""

    def __init__(self, deadline: float | None, silence: float | None, watch: Watch | None) -> None:
        self._deadline, self._silence, self._watch = deadline, silence, watch
        self._latest = self._watched = time.monotonic()

    def note_output(self) -> None:
        self._latest = time.monotonic()

    def check(self) -> float | None:
        """Call the watch if it is due; return the seconds to wait.

        They are None if unlimited, and not positive if the time is over.
        """
        now = time.monotonic()
        ends = [] if self._deadline is None else [self._deadline]
        ends += [] if self._silence is None else [self._latest + self._silence]
        if ends and min(ends) <= now:
            return 0
        if self._watch:
            if now - self._watched >= WATCH_SECONDS:
                self._watch()
                self._watched = time.monotonic()
            ends.append(self._watched + WATCH_SECONDS)
        return max(0.001, min(ends) - time.monotonic()) if ends else None


def _forward_by_threads(
    streams: Mapping[int, int], sink: Callable[[int, bytes], None], clock: _OutputClock
) -> bool:  # fmt: skip
    """Do the work of `forward_output` on Windows, whose `select` takes no pipes."""
    pieces: queue.SimpleQueue[tuple[int, bytes]] = queue.SimpleQueue()

    def read(descriptor: int, number: int) -> None:
        piece = b"-"
        while piece:
            try:
                piece = os.read(descriptor, PIECE)
            except OSError:  # closed after the deadline
                piece = b""
            pieces.put((number, piece))

    for stream in streams.items():
        threading.Thread(target=read, args=stream, daemon=True).start()
    unread = len(streams)
    while unread:
        rest = clock.check()
        if rest is not None and rest <= 0:
            return False
        try:
            number, piece = pieces.get(timeout=rest)
        except queue.Empty:
            continue
        clock.note_output()
        if piece:
            sink(number, piece)
        else:
            unread -= 1
    return True


def _write_pieces(stream: IO[bytes], pieces: Iterable[bytes]) -> None:
    """Write the pieces and close the stream.

    It stays open if a piece fails.
    """
    for piece in pieces:
        try:
            stream.write(piece)
        except BrokenPipeError:  # a child may end before it has read everything
            break
    _close(stream)


def _close(stream: IO[bytes]) -> None:
    with contextlib.suppress(BrokenPipeError):  # the rest of the buffer has no reader
        stream.close()
