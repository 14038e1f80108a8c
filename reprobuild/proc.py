"""The only door to other programs."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO

from reprobuild.errors import EngineError, ReproError

TAIL_LINES = 20


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
        EngineError: it is absent or cannot be run (or `missing`), or it ran past `timeout`.
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


def _late(argv: Sequence[str], purpose: str, timeout: float) -> EngineError:
    return EngineError(
        f"could not {purpose}: `{argv[0]}` did not end within {timeout:.0f} s",
        hint="run the command by hand to see where it waits: " + shlex.join(argv),
    )


def _failed(argv: Sequence[str], purpose: str, code: int, complaint: bytes) -> Failed:
    stderr = complaint.decode(errors="replace")
    tail = "\n".join(stderr.strip().splitlines()[-TAIL_LINES:])
    return Failed(
        f"could not {purpose}: `{argv[0]}` exited {code}\n{tail}".rstrip(), code=code, stderr=stderr
    )
