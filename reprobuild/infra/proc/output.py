"""The bounded output of a running program."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections import deque
from typing import IO, cast

PIECE = 1 << 16
MOST_OUTPUT = 1 << 30
MOST_COMPLAINT = 1 << 20


class OutputOverflowError(Exception):
    """An error: standard output exceeded its bound."""


class Tail:
    """The last bytes of a stream, at least `MOST_COMPLAINT`.

    There may be a little more.
    """

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._size = 0

    def add(self, piece: bytes) -> None:
        """Add a piece, and drop the oldest if possible."""
        self._pieces.append(piece)
        self._size += len(piece)
        while self._size - len(self._pieces[0]) >= MOST_COMPLAINT:
            self._size -= len(self._pieces.popleft())

    def content(self) -> bytes:
        """Return the bytes."""
        return b"".join(self._pieces)


def collect(
    child: subprocess.Popen[bytes], stdin: bytes | None, timeout: float, most: int
) -> tuple[bytes, bytes]:
    """Feed a program, and wait for its end.

    Args:
        child: a program with pipes.
        stdin: its input.
        timeout: seconds in which it must end.
        most: the maximum bytes of its standard output.

    Returns:
        Its standard output, empty if that is not a pipe, and the end of its standard error.

    Raises:
        subprocess.TimeoutExpired: it did not end in time.
        OutputOverflowError: it wrote more than `most`.
    """
    if os.name == "nt":
        return _collect_by_threads(child, stdin, timeout, most)
    deadline = time.monotonic() + timeout
    exchange = _Exchange(stdin or b"", most)
    with selectors.DefaultSelector() as selector:
        for stream in (child.stdin, child.stdout, child.stderr):
            if stream:
                os.set_blocking(stream.fileno(), False)
                writing = stream is child.stdin
                selector.register(
                    stream, selectors.EVENT_WRITE if writing else selectors.EVENT_READ,
                    exchange.give if writing else exchange.take if stream is child.stdout else exchange.note,
                )  # fmt: skip
        while selector.get_map():
            for key, _ in selector.select(_remaining_seconds(deadline, child)):
                if not key.data(key.fd):
                    selector.unregister(key.fileobj)
                    cast("IO[bytes]", key.fileobj).close()
    child.wait(_remaining_seconds(deadline, child))
    return bytes(exchange.output), exchange.complaint.content()


def _collect_by_threads(
    child: subprocess.Popen[bytes], stdin: bytes | None, timeout: float, most: int
) -> tuple[bytes, bytes]:
    """Do the work of `collect` on Windows, whose `select` takes no pipes."""
    output, complaint = child.communicate(stdin, timeout)
    if len(output or b"") > most:
        raise OutputOverflowError
    return output or b"", complaint[-MOST_COMPLAINT:]


class _Exchange:
    """The data to and from a program.

    Each method returns whether there is more.
    """

    def __init__(self, stdin: bytes, most: int) -> None:
        self.output, self.complaint = bytearray(), Tail()
        self._stdin, self._most = memoryview(stdin), most

    def give(self, descriptor: int) -> bool:
        try:
            self._stdin = self._stdin[os.write(descriptor, self._stdin[:PIECE]) :]
        except BrokenPipeError:  # a program may end before it has read everything
            return False
        return bool(self._stdin)

    def take(self, descriptor: int) -> bool:
        piece = os.read(descriptor, PIECE)
        self.output += piece
        if len(self.output) > self._most:
            raise OutputOverflowError
        return bool(piece)

    def note(self, descriptor: int) -> bool:
        piece = os.read(descriptor, PIECE)
        self.complaint.add(piece)
        return bool(piece)


def _remaining_seconds(deadline: float, child: subprocess.Popen[bytes]) -> float:
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise subprocess.TimeoutExpired(child.args, 0)
    return seconds
