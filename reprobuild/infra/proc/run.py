"""Programs whose output is read after their end."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from reprobuild.errors import EngineError, ReproError
from reprobuild.infra.proc.errors import exit_error, overflow_error, start_error, timeout_error
from reprobuild.infra.proc.output import MOST_OUTPUT, OutputOverflowError, collect
from reprobuild.infra.proc.programs import absolute_path, resolve_program
from reprobuild.infra.proc.session import GRACE_SECONDS, end_program, kill_program, register_program


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
    most: int = MOST_OUTPUT,
    terminal: bool = False,
    command: Sequence[str] = (),
    grace: float = 0,
) -> bytes:
    """Run a program to its end; return its standard output.

    Args:
        argv: the program and its arguments; never a shell line. Its name is searched in the absolute entries
            of PATH.
        env: the complete environment of the program; of its PATH it gets the absolute entries.
        purpose: completes "is needed to ..." and "could not ...".
        stdin: bytes for its standard input; empty if None.
        cwd: its working directory.
        output: a file for its standard output, of any length, instead of memory.
        timeout: seconds until it is killed.
        missing: the error raised when the program is absent.
        hint: the remedy when it is absent.
        most: the maximum bytes of its standard output in memory.
        terminal: it may ask the user at the terminal; any other program has a session without one.
        command: the program and its arguments for messages, if `argv` starts it through another.
        grace: seconds from SIGTERM to SIGKILL if it is ended early, for a program that must end others
            itself.

    Raises:
        ProcessFailedError: it exited with another code than 0; the message ends with the tail of its standard error.
        ProcessTimeoutError: it ran past `timeout`.
        EngineError: it is absent or cannot be run (or `missing`), or wrote more than `most`.
    """
    shown = command or argv
    with contextlib.ExitStack() as stack:
        target = stack.enter_context(output.open("wb")) if output else subprocess.PIPE
        try:
            child = stack.enter_context(
                subprocess.Popen(
                    resolve_program(argv, env), env=absolute_path(env), stdout=target, stderr=subprocess.PIPE, cwd=cwd,
                    stdin=subprocess.PIPE if stdin else subprocess.DEVNULL, start_new_session=not terminal,
                )
            )  # fmt: skip
        except OSError as err:
            raise start_error(err, argv, env, purpose, cwd, missing, hint) from None
        stdout, stderr = _result(child, stdin, timeout, most, shown, purpose, grace)
    if child.returncode:
        raise exit_error(shown, purpose, child.returncode, stderr)
    return stdout


def _result(
    child: subprocess.Popen[bytes], stdin: bytes | None, timeout: float, most: int, argv: Sequence[str], purpose: str,
    grace: float = 0,
) -> tuple[bytes, bytes]:  # fmt: skip
    """Return the output of a program after its end.

    It is always ended when the wait is over.
    """
    try:
        with register_program(child):
            return collect(child, stdin, timeout, most)
    except subprocess.TimeoutExpired:
        raise timeout_error(argv, purpose, timeout) from None
    except OutputOverflowError:
        raise overflow_error(argv, purpose, most) from None
    except KeyboardInterrupt:
        end_program(child, GRACE_SECONDS)  # it may have children to end
        raise
    finally:
        if grace:
            end_program(child, grace)
        kill_program(child)


class Process:
    """A program that runs until its answer is needed.

    For the arguments see `run`.

    Raises:
        EngineError: it is absent or cannot be run (or `missing`).
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        purpose: str,
        cwd: Path | None = None,
        missing: type[ReproError] = EngineError,
    ) -> None:
        self._argv, self._purpose = list(argv), purpose
        try:
            self._child = subprocess.Popen(
                resolve_program(argv, env),
                env=absolute_path(env),
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as err:
            raise start_error(err, argv, env, purpose, None, missing, "") from None

    def result(self, timeout: float) -> bytes:
        """Wait for its end, and return its standard output; once.

        Raises:
            ProcessFailedError: it exited with another code than 0.
            ProcessTimeoutError: it did not end within `timeout` seconds.
        """
        try:
            stdout, stderr = _result(self._child, None, timeout, MOST_OUTPUT, self._argv, self._purpose)
        finally:
            self.end()
        if self._child.returncode:
            raise exit_error(self._argv, self._purpose, self._child.returncode, stderr)
        return stdout

    def end(self) -> None:
        """End the program if it is still running."""
        kill_program(self._child)
        for stream in (self._child.stdout, self._child.stderr):
            if stream:
                stream.close()
