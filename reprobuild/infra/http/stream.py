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
    seconds, late = 2 * manners.read, threading.Event()
    too_late = f"no byte of the content came in {seconds:.0f} s"

    def cut() -> None:
        late.set()
        _end(response)

    # A read may take any time although bytes arrive: those of a chunk's length, of trailers, or of a header of gzip.
    with WATCH.limit_time(seconds, cut) as due:
        while True:
            due.renew(seconds)
            try:
                with halt.ending(lambda: _end(response)):
                    piece = response.raw.read1(most, decode_content=decode)
            except _DAMAGED as err:
                raise StreamInterruptedError(too_late if late.is_set() else innermost_cause(err)) from None
            if late.is_set():
                raise StreamInterruptedError(too_late)
            if not piece:
                return
            yield piece
            came += len(piece)
            now = time.monotonic()
            if now - begun > manners.read:
                if came < least:
                    raise StreamInterruptedError(f"{came} bytes came in {now - begun:.0f} s")
                begun, came = now, 0


def _end(response: requests.Response) -> None:
    with contextlib.suppress(OSError, RuntimeError, ValueError):  # it has ended by itself
        response.raw.shutdown()
