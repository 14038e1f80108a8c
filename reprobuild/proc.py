"""The only door to other programs."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

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
        EngineError: it is absent or cannot be run (or `missing`), or it ran past `timeout`.
    """
    try:
        done = subprocess.run(
            list(argv), env=dict(env), input=stdin, capture_output=True, cwd=cwd, timeout=timeout,
            stdin=subprocess.DEVNULL if stdin is None else None, check=False,
        )  # fmt: skip
    except OSError as err:
        if cwd and str(err.filename) == str(cwd):
            raise EngineError(
                f"could not {purpose}: {cwd}: {err.strerror}", hint="was the folder removed meanwhile?"
            ) from None
        if not isinstance(err, FileNotFoundError):
            raise missing(
                f"`{argv[0]}` cannot be run ({err.strerror}), and is needed to {purpose}",
                hint=hint or f"check the permissions of `command -v {argv[0]}`",
            ) from None
        raise missing(
            f"`{argv[0]}` is not on PATH, and is needed to {purpose}", hint=hint or f"install {argv[0]}"
        ) from None
    except subprocess.TimeoutExpired:
        raise EngineError(
            f"could not {purpose}: `{argv[0]}` did not end within {timeout:.0f} s",
            hint="run the command by hand to see where it waits: " + shlex.join(argv),
        ) from None
    if done.returncode:
        stderr = done.stderr.decode(errors="replace")
        tail = "\n".join(stderr.strip().splitlines()[-TAIL_LINES:])
        raise Failed(
            f"could not {purpose}: `{argv[0]}` exited {done.returncode}\n{tail}".rstrip(),
            code=done.returncode,
            stderr=stderr,
        )
    return done.stdout
