"""Programs that read this process's standard input, at a terminal of their own."""

from __future__ import annotations

import contextlib
import os
import struct
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from reprobuild.errors import EngineError
from reprobuild.infra.proc.errors import start_error
from reprobuild.infra.proc.keyboard import PIECE, forward_keyboard, terminal_size
from reprobuild.infra.proc.programs import absolute_path, resolve_program
from reprobuild.infra.proc.session import GRACE_SECONDS, end_program
from reprobuild.infra.proc.signals import SignalForwarding, forward_signals
from reprobuild.infra.proc.stream import StartedProgram, forward_output

# util-linux: a program in a session of its own, whose terminal is its standard input.
OWN_SESSION = ("setsid", "--ctty")
Sink = Callable[[int, bytes], None]
Start = Callable[..., "subprocess.Popen[bytes]"]


def interact(
    argv: Sequence[str], *, env: Mapping[str, str], purpose: str, sink: Sink, terminal: bool, handing: SignalForwarding
) -> int:  # fmt: skip
    """Run a program that reads this process's standard input; return its code.

    The program never has the user's terminal: it could type into it, and the user's shell would run that.

    Args:
        argv, env, purpose, sink, handing: see `stream`.
        terminal: give it a pseudo-terminal, and pass each key on. Standard input must be a terminal.

    Raises:
        EngineError: the program is absent, or cannot be run.
    """
    start, begun = partial(_start, argv, env, purpose), StartedProgram()
    with forward_signals(handing.tell or begun.tell, partial(begun.tell, handing.last), handing):
        return (_at_terminal if terminal else _with_pipes)(start, sink, begun)


def _start(
    argv: Sequence[str], env: Mapping[str, str], purpose: str, prefix: tuple[str, ...] = (), **options: Any
) -> subprocess.Popen[bytes]:
    try:
        words = [*(resolve_program(prefix, env) if prefix else ()), *resolve_program(argv, env)]
        return subprocess.Popen(words, env=absolute_path(env), **options)
    except OSError as err:
        raise start_error(err, argv, env, purpose, None, EngineError, "") from None


def _with_pipes(start: Start, sink: Sink, begun: StartedProgram) -> int:
    pipe = subprocess.PIPE
    with ExitStack() as stack:
        child = stack.enter_context(
            start(stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True)
        )
        begun.begin(child)
        assert child.stdin
        assert child.stdout
        assert child.stderr
        stack.enter_context(forward_keyboard(partial(_write_all, child.stdin.fileno()), child.stdin.close))
        stack.callback(end_program, child, GRACE_SECONDS)  # before the wait for a key that it does not read
        forward_output({child.stdout.fileno(): 1, child.stderr.fileno(): 2}, sink, None, None)
        return child.wait()


def _at_terminal(start: Start, sink: Sink, begun: StartedProgram) -> int:
    upper, lower = os.openpty()
    with ExitStack() as stack:
        stack.callback(os.close, upper)
        try:
            _set_size(upper, *terminal_size())
            child = start(prefix=OWN_SESSION, stdin=lower, stdout=lower, stderr=lower)
        finally:
            os.close(lower)
        begun.begin(child)
        stack.enter_context(
            forward_keyboard(partial(_write_all, upper), _ignore_end, partial(_set_size, upper))
        )
        stack.callback(end_program, child, GRACE_SECONDS)  # before the wait for a key that it does not read
        for piece in _read_terminal(upper):
            sink(1, piece)
        return child.wait()


def _read_terminal(upper: int) -> Iterator[bytes]:
    """Yield what programs write to a pseudo-terminal, until the last of them ends."""
    with contextlib.suppress(OSError):  # EIO: no program has it any more (pty(7))
        while piece := os.read(upper, PIECE):
            yield piece


def _ignore_end() -> None:
    """Leave a terminal that is gone to the signal SIGHUP."""


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _set_size(upper: int, rows: int, columns: int) -> None:
    """Set the size of a pseudo-terminal (TIOCSWINSZ in ioctl_tty(2)); its programs get SIGWINCH."""
    import fcntl  # not on Windows
    import termios

    fcntl.ioctl(upper, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
