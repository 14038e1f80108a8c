"""Errors of programs.

A program was not started, ran too long, or exited with another code than 0.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from reprobuild.errors import EngineError, ReproError
from reprobuild.infra.proc.programs import skipped_program_hint

TAIL_LINES = 20


class ProcessFailedError(EngineError):
    """An error: a program exited with another code than 0.

    Attributes:
        code: its exit code; negative for a signal.
        stderr: its complete standard error.
    """

    def __init__(self, message: str, *, code: int, stderr: str) -> None:
        super().__init__(message)
        self.code = code
        self.stderr = stderr


class ProcessTimeoutError(EngineError):
    """An error: a program ran past its time limit."""


def start_error(
    err: OSError, argv: Sequence[str], env: Mapping[str, str], purpose: str, cwd: Path | None,
    missing: type[ReproError], hint: str,
) -> ReproError:  # fmt: skip
    """Return the error for a program that could not start."""
    if cwd and str(err.filename) == str(cwd):
        return EngineError(
            f"could not {purpose}: {cwd}: {err.strerror}", hint="was the directory removed meanwhile?"
        )
    if not isinstance(err, FileNotFoundError):
        return missing(
            f"`{argv[0]}` cannot be run ({err.strerror}), and is needed to {purpose}",
            hint=hint or f"check the permissions of `command -v {shlex.quote(argv[0])}`",
        )
    return missing(
        f"`{argv[0]}` is not on PATH, and is needed to {purpose}",
        hint=skipped_program_hint(argv[0], env) or hint or f"install {argv[0]}",
    )


def timeout_error(
    argv: Sequence[str], purpose: str, timeout: float, *, silent: bool = False
) -> ProcessTimeoutError:
    """Return the error for a program past its time.

    It ran too long, or was silent for too long.
    """
    return ProcessTimeoutError(
        f"could not {purpose}: `{argv[0]}` "
        + (f"said nothing for {timeout:.0f} s" if silent else f"did not end within {timeout:.0f} s"),
        hint="run the command by hand to see where it waits: " + shlex.join(argv),
    )


def overflow_error(argv: Sequence[str], purpose: str, most: int) -> EngineError:
    """Return the error for too much output of a program."""
    return EngineError(
        f"could not {purpose}: `{argv[0]}` wrote more than {most >> 20} MiB to its standard output",
        hint="nothing of it was used; a program that writes so much here is hostile, or broken",
    )


def exit_error(argv: Sequence[str], purpose: str, code: int, complaint: bytes) -> ProcessFailedError:
    """Return the error for a program that exited with `code`.

    The message ends with the tail of its complaint.
    """
    stderr = complaint.decode(errors="replace")
    tail = "\n".join(stderr.strip().splitlines()[-TAIL_LINES:])
    return ProcessFailedError(
        f"could not {purpose}: `{argv[0]}` exited {code}\n{tail}".rstrip(), code=code, stderr=stderr
    )
