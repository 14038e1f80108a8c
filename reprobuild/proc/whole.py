"""Programs whose output is taken whole, when they have ended."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from reprobuild.errors import EngineError, ReproError
from reprobuild.proc.failures import failed, late, unstarted
from reprobuild.proc.programs import absolute_path, with_program


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
        argv: the program and its arguments; never a shell line. Its name is looked for in the absolute entries of PATH.
        env: the whole environment of the program; of its PATH it gets the absolute entries.
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
                with_program(argv, env), env=absolute_path(env), input=stdin, stdout=target,
                stderr=subprocess.PIPE, cwd=cwd, timeout=timeout, check=False,
                stdin=subprocess.DEVNULL if stdin is None else None,
            )  # fmt: skip
        except OSError as err:
            raise unstarted(err, argv, env, purpose, cwd, missing, hint) from None
        except subprocess.TimeoutExpired:
            raise late(argv, purpose, timeout) from None
    if done.returncode:
        raise failed(argv, purpose, done.returncode, done.stderr)
    return done.stdout or b""


class Begun:
    """A program that was started, and works on while its answer is not yet needed. For the arguments see `run`.

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
                with_program(argv, env),
                env=absolute_path(env),
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except OSError as err:
            raise unstarted(err, argv, env, purpose, None, missing, "") from None

    def result(self, timeout: float) -> bytes:
        """Wait for its end, and return its standard output; once.

        Raises:
            Failed: it exited with another code than 0. TimedOut: it did not end within `timeout` seconds.
        """
        try:
            said, complained = self._child.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.end()
            raise late(self._argv, self._purpose, timeout) from None
        if self._child.returncode:
            raise failed(self._argv, self._purpose, self._child.returncode, complained)
        return said

    def end(self) -> None:
        """End it where it still works; nothing happens where it has ended."""
        if self._child.poll() is None:
            self._child.kill()
        for stream in (self._child.stdout, self._child.stderr):
            if stream:
                stream.close()
        self._child.wait()
