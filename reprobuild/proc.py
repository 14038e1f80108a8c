"""The only door to other programs."""

from __future__ import annotations

import os
import selectors
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, cast

from reprobuild.errors import EngineError, ReproError

TAIL_LINES = 20
CHUNK = 1 << 16


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
    """A program ran past its time, and was killed."""


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    purpose: str,
    stdin: bytes | None = None,
    cwd: Path | None = None,
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
        timeout: seconds until it is killed.
        missing: the error raised when the program is absent.
        hint: what to do when it is absent.

    Raises:
        Failed: it exited with another code than 0; the message ends with the tail of its standard error.
        TimedOut: it ran past `timeout`.
        EngineError: it is absent or cannot be run (or `missing`).
    """
    try:
        done = subprocess.run(
            list(argv), env=dict(env), input=stdin, capture_output=True, cwd=cwd, timeout=timeout,
            stdin=subprocess.DEVNULL if stdin is None else None, check=False,
        )  # fmt: skip
    except OSError as err:
        raise _unstarted(err, argv, cwd, purpose, missing, hint) from None
    except subprocess.TimeoutExpired:
        raise _late(argv, purpose, timeout) from None
    if done.returncode:
        stderr = done.stderr.decode(errors="replace")
        tail = "\n".join(stderr.strip().splitlines()[-TAIL_LINES:])
        raise Failed(
            f"could not {purpose}: `{argv[0]}` exited {done.returncode}\n{tail}".rstrip(),
            code=done.returncode,
            stderr=stderr,
        )
    return done.stdout


def stream(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    purpose: str,
    sink: Callable[[int, bytes], None],
    timeout: float = 0,
) -> int:
    """Run a program to its end, hand on its output as it comes, and return its exit code.

    The code is negative for a signal. Where `sink` raises, or the wait is interrupted, the program is killed.

    Args:
        argv: the program and its arguments; never a shell line. Its standard input is empty.
        env: the whole environment of the program.
        purpose: completes "is needed to ..." and "could not ...".
        sink: takes a stream's number (1 standard output, 2 standard error) and bytes.
        timeout: seconds until it is killed; 0 for none.

    Raises:
        TimedOut: it ran past `timeout`.
        EngineError: it is absent or cannot be run.
    """
    try:
        process = subprocess.Popen(
            list(argv),
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as err:
        raise _unstarted(err, argv, None, purpose, EngineError, "") from None
    with process:
        try:
            if not _hand_on(process, sink, time.monotonic() + timeout if timeout else None):
                raise _late(argv, purpose, timeout)
            return process.wait()
        finally:
            if process.poll() is None:
                process.kill()


def _hand_on(
    process: subprocess.Popen[bytes], sink: Callable[[int, bytes], None], deadline: float | None
) -> bool:
    """Pass output on until both pipes end; return False when the deadline comes first."""
    with selectors.DefaultSelector() as selector:
        for number, pipe in ((1, process.stdout), (2, process.stderr)):
            selector.register(cast("IO[bytes]", pipe), selectors.EVENT_READ, number)
        while selector.get_map():
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            for key, _ in selector.select(left):
                chunk = os.read(key.fd, CHUNK)
                if chunk:
                    sink(cast(int, key.data), chunk)
                else:
                    selector.unregister(key.fileobj)
    return True


def _unstarted(
    err: OSError, argv: Sequence[str], cwd: Path | None, purpose: str, missing: type[ReproError], hint: str
) -> ReproError:
    """Return the error for a program that could not be started."""
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
