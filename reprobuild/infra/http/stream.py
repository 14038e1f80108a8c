"""The bytes of an answer as they come, and every way in which they stop coming as one exception."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import requests
import urllib3

from reprobuild.infra.cancel import CancelToken
from reprobuild.infra.http.model import cause
from reprobuild.infra.http.retry import RetryPolicy

_DAMAGED = (urllib3.exceptions.HTTPError, OSError, ValueError)


class StreamInterruptedError(Exception):
    """The rest does not come."""


def pieces(
    response: requests.Response,
    most: int,
    manners: RetryPolicy,
    least: int,
    halt: CancelToken,
    *,
    decode: bool,
) -> Iterator[bytes]:
    """Yield what comes, at most `most` bytes at a time, until the server says that this was all.

    Nothing that came is lost when the rest does not: each read gives what is there. urllib3 compares what came
    with Content-Length, and an answer in chunks says where it ends.

    Args:
        response: the open answer.
        most: how many bytes one piece may have.
        manners: how long one read may take.
        least: how many bytes must come in that time.
        halt: ends the reading.
        decode: take the compression of the transfer off; else the bytes are as the server keeps them, as some
            name the compression of a `.tar.gz` as if it were of the transfer.

    Raises:
        CancelledError: so it was said. StreamInterruptedError: the connection broke, or brings next to nothing.
    """
    begun, came = time.monotonic(), 0
    while True:
        try:
            with halt.ending(lambda: _end(response)):
                piece = response.raw.read1(most, decode_content=decode)
        except _DAMAGED as err:
            raise StreamInterruptedError(cause(err)) from None
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
