"""Standard input of this process, passed on to a program or a container as it arrives."""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections.abc import Callable, Iterator

STDIN = 0
PIECE = 1 << 16
LOOK_SECONDS = 0.2  # between two looks at the size of the terminal

# Takes the rows and columns of the terminal.
Resize = Callable[[int, int], None]


def is_terminal() -> bool:
    """Return whether standard input is a terminal."""
    return os.isatty(STDIN)


def terminal_size() -> tuple[int, int]:
    """Return the rows and columns of the terminal of standard input."""
    columns, rows = os.get_terminal_size(STDIN)
    return rows, columns


@contextlib.contextmanager
def forward_keyboard(
    send: Callable[[bytes], object], close: Callable[[], object], resize: Resize | None = None
) -> Iterator[None]:
    """Pass standard input on within this block.

    Args:
        send: takes bytes; an OSError ends the forwarding, because the reader has gone.
        close: is called at the end of standard input.
        resize: is called with the size of the terminal, and after each change. If given, the terminal is raw: each
            key is passed on at once, Ctrl-C too, and the program at the other end echoes it.
    """
    ended, end = os.pipe()
    pump = threading.Thread(target=_pump, args=(ended, send, close, resize), daemon=True, name="keyboard")
    with _raw_terminal() if resize else contextlib.nullcontext():
        pump.start()
        try:
            yield
        finally:
            os.close(end)
            pump.join()
            os.close(ended)


@contextlib.contextmanager
def _raw_terminal() -> Iterator[None]:
    import termios  # not on Windows
    import tty

    settings = termios.tcgetattr(STDIN)
    tty.setraw(STDIN, termios.TCSANOW)  # a terminal that stands still (Ctrl-S) must not hold up the end
    try:
        yield
    finally:
        termios.tcsetattr(STDIN, termios.TCSANOW, settings)


def _pump(
    ended: int, send: Callable[[bytes], object], close: Callable[[], object], resize: Resize | None
) -> None:
    """Send what is typed until the block ends, or standard input does."""
    size, sources = (0, 0), [STDIN, ended]
    with contextlib.suppress(OSError):
        while ended not in (ready := select.select(sources, [], [], LOOK_SECONDS if resize else None)[0]):
            if resize and (now := terminal_size()) != size:
                size = now
                resize(*size)
            if STDIN in ready:
                data = os.read(STDIN, PIECE)
                if data:
                    send(data)
                else:
                    sources = [ended]
                    close()
