"""The bytes of an answer, with one exception for failures."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import requests
import urllib3

from reprobuild.infra.cancel import CancelToken
from reprobuild.infra.http.deadline import WATCH
from reprobuild.infra.http.model import innermost_cause
from reprobuild.infra.http.retry import RetryPolicy

_DAMAGED = (urllib3.exceptions.HTTPError, OSError, ValueError)


class StreamInterruptedError(Exception):
    """An error: the connection broke before the body was complete."""


def read_body(
    response: requests.Response,
    most: int,
    manners: RetryPolicy,
    least: int,
    halt: CancelToken,
    *,
    decode: bool,
) -> Iterator[bytes]:
    """Yield the bytes of an answer until its end.

    Each piece has at most `most` bytes. Received bytes are never lost when the rest fails: each read returns
    the available bytes. urllib3 compares their number with Content-Length, and a chunked answer marks its
    end.

    Args:
        response: the open answer.
        most: the maximum bytes of a piece.
        manners: the time limit of a read.
        least: the minimum bytes in that time.
        halt: cancels the reading.
        decode: remove the compression of the transfer; else the bytes are as the server keeps them, as some
            servers declare the compression of a `.tar.gz` as that of the transfer.

    Raises:
        CancelledError: it was cancelled. StreamInterruptedError: the connection broke, or is too slow.
    """
    begun, came = time.monotonic(), 0
    while True:
        piece, late = _read_piece(response, most, 2 * manners.read, halt, decode=decode)
        if late:
            raise StreamInterruptedError(f"no byte of the content came in {2 * manners.read:.0f} s")
        if not piece:
            return
        yield piece
        came += len(piece)
        now = time.monotonic()
        if now - begun > manners.read:
            if came < least:
                raise StreamInterruptedError(f"{came} bytes came in {now - begun:.0f} s")
            begun, came = now, 0


def _read_piece(
    response: requests.Response, most: int, seconds: float, halt: CancelToken, *, decode: bool
) -> tuple[bytes, bool]:
    """Return the next bytes of an answer, and whether they came too late.

    A read may take any time although bytes arrive: those of a chunk's length, of trailers, or of a header of gzip.
    """
    late = threading.Event()

    def cut() -> None:
        late.set()
        _end(response)

    try:
        with halt.ending(lambda: _end(response)), WATCH.limit_time(seconds, cut):
            return response.raw.read1(most, decode_content=decode), late.is_set()
    except _DAMAGED as err:
        if late.is_set():
            return b"", True
        raise StreamInterruptedError(innermost_cause(err)) from None


def _end(response: requests.Response) -> None:
    with contextlib.suppress(OSError, RuntimeError, ValueError):  # it has ended by itself
        response.raw.shutdown()
