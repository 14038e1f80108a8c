"""The only door to other programs."""

from __future__ import annotations

import contextlib
import os
import selectors
import shlex
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO

from reprobuild.errors import EngineError, ReproError

TAIL_LINES = 20
PIECE = 1 << 16
GRACE_SECONDS = 10  # from SIGTERM to SIGKILL


class Failed(EngineError):
    """A program ran and exited with another code than 0.

    Attributes:
        code: its exit code; negative for a signal.
        stderr: all that it wrote to standard error.
    """

    def __init__(self, what: str, *, code: int, stderr: str) -> None:
        super().__init__(what)
        self.code = code
        self.stderr = stderr


class TimedOut(EngineError):
    """A program ran past its time."""


def comma_separated(fields: Iterable[str]) -> str:
    """Return an argument that a program reads as one line of comma-separated values (RFC 4180).

    Any path can be written in it: `--mount`, and `--output` of buildx.
    """
    return ",".join('"' + field.replace('"', '""') + '"' for field in fields)


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    purpose: str,
    stdin: bytes | None = None,
    cwd: Path | None = None,
    output: Path | None = None,
    timeout: float = 3600,
    missing: type[ReproError] = EngineError,
    hint: str = "",
) -> bytes:
    """Run a program to its end and return its standard output.

    Args:
        argv: the program and its arguments; never a shell line.
        env: the whole environment of the program.
        purpose: completes "is needed to ..." and "could not ...".
        stdin: bytes for its standard input; nothing when None.
        cwd: its working directory.
        output: a file that takes its standard output, of any length, instead of memory.
        timeout: seconds until it is killed.
        missing: the error raised when the program is absent.
        hint: what to do when it is absent.

    Raises:
        Failed: it exited with another code than 0; the message ends with the tail of its standard error.
        TimedOut: it ran past `timeout`.
        EngineError: it is absent or cannot be run (or `missing`).
    """
    with contextlib.ExitStack() as stack:
        target = stack.enter_context(output.open("wb")) if output else subprocess.PIPE
        try:
            done = subprocess.run(
                list(argv), env=dict(env), input=stdin, stdout=target, stderr=subprocess.PIPE, cwd=cwd,
                timeout=timeout, stdin=subprocess.DEVNULL if stdin is None else None, check=False,
            )  # fmt: skip
        except OSError as err:
            raise _unstarted(err, argv, purpose, cwd, missing, hint) from None
        except subprocess.TimeoutExpired:
            raise _late(argv, purpose, timeout) from None
    if done.returncode:
        raise _failed(argv, purpose, done.returncode, done.stderr)
    return done.stdout or b""


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
    """Run a program that reads `pieces`, one after the other, and return its standard output.

    The pieces are taken as the program reads them, so that none waits in memory. Where one cannot be had,
    the program is killed and the error of `pieces` goes on. For the arguments see `run`.

    Raises:
        Failed, EngineError: as `run` does; an early end of the program with code 0 is its own affair.
    """
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as complained:
        try:
            child = subprocess.Popen(
                list(argv), env=dict(env), stdin=subprocess.PIPE, stdout=said, stderr=complained
            )
        except OSError as err:
            raise _unstarted(err, argv, purpose, None, missing, hint) from None
        assert child.stdin is not None
        stream, expired = child.stdin, threading.Event()

        def expire() -> None:
            expired.set()
            child.kill()

        clock = threading.Timer(timeout, expire)
        clock.daemon = True
        clock.start()
        try:
            _pour(stream, pieces)
            child.wait()
        finally:
            clock.cancel()
            child.kill()  # nothing happens where it has ended
            _close(stream)
            child.wait()
        said.seek(0)
        complained.seek(0)
        if expired.is_set():
            raise _late(argv, purpose, timeout)
        if child.returncode:
            raise _failed(argv, purpose, child.returncode, complained.read())
        return said.read()


def stream(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    purpose: str,
    sink: Callable[[int, bytes], None],
    timeout: float = 0,
) -> int:
    """Run a program to its end, hand on its output as it comes, and return its exit code.

    The code is negative for a signal. Where `sink` raises, or the wait is interrupted, the program is ended: it
    is asked to (SIGTERM) before it is made to, so that it can take along what it has started.

    Args:
        argv: the program and its arguments; never a shell line. Its standard input is empty.
        env: the whole environment of the program.
        purpose: completes "is needed to ..." and "could not ...".
        sink: takes a stream's number (1 standard output, 2 standard error) and bytes.
        timeout: seconds until it is ended; 0 for none.

    Raises:
        TimedOut: it ran past `timeout`.
        EngineError: it is absent or cannot be run.
    """
    try:
        child = subprocess.Popen(
            list(argv),
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as err:
        raise _unstarted(err, argv, purpose, None, EngineError, "") from None
    deadline = time.monotonic() + timeout if timeout else None
    assert child.stdout is not None
    assert child.stderr is not None
    with child.stdout, child.stderr:
        try:
            if _hand_on({child.stdout.fileno(): 1, child.stderr.fileno(): 2}, sink, deadline):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return child.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
        finally:
            _end(child)
    raise _late(argv, purpose, timeout)


def _hand_on(streams: Mapping[int, int], sink: Callable[[int, bytes], None], deadline: float | None) -> bool:
    """Hand on what comes until both streams end; return False where the deadline comes first."""
    with selectors.DefaultSelector() as selector:
        for descriptor, number in streams.items():
            selector.register(descriptor, selectors.EVENT_READ, number)
        while selector.get_map():
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            for key, _ in selector.select(left):
                piece = os.read(key.fd, PIECE)
                if piece:
                    sink(key.data, piece)
                else:
                    selector.unregister(key.fd)
    return True


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is not None:
        return
    child.terminate()
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(GRACE_SECONDS)
    finally:
        child.kill()  # nothing happens where it has ended
        child.wait()


def _pour(stream: IO[bytes], pieces: Iterable[bytes]) -> None:
    """Write the pieces and close the stream; it stays open where a piece cannot be had."""
    for piece in pieces:
        try:
            stream.write(piece)
        except BrokenPipeError:  # a child that ends before it has read all has its reasons
            break
    _close(stream)


def _close(stream: IO[bytes]) -> None:
    with contextlib.suppress(BrokenPipeError):  # what is still buffered has no reader
        stream.close()


def _unstarted(
    err: OSError, argv: Sequence[str], purpose: str, cwd: Path | None, missing: type[ReproError], hint: str
) -> ReproError:
    if cwd and str(err.filename) == str(cwd):
        return EngineError(
            f"could not {purpose}: {cwd}: {err.strerror}", hint="was the folder removed meanwhile?"
        )
    if not isinstance(err, FileNotFoundError):
        return missing(
            f"`{argv[0]}` cannot be run ({err.strerror}), and is needed to {purpose}",
            hint=hint or f"check the permissions of `command -v {argv[0]}`",
        )
    return missing(
        f"`{argv[0]}` is not on PATH, and is needed to {purpose}", hint=hint or f"install {argv[0]}"
    )


def _late(argv: Sequence[str], purpose: str, timeout: float) -> TimedOut:
    return TimedOut(
        f"could not {purpose}: `{argv[0]}` did not end within {timeout:.0f} s",
        hint="run the command by hand to see where it waits: " + shlex.join(argv),
    )


def _failed(argv: Sequence[str], purpose: str, code: int, complaint: bytes) -> Failed:
    stderr = complaint.decode(errors="replace")
    tail = "\n".join(stderr.strip().splitlines()[-TAIL_LINES:])
    return Failed(
        f"could not {purpose}: `{argv[0]}` exited {code}\n{tail}".rstrip(), code=code, stderr=stderr
    )
