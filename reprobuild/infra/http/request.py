"""Bodies of requests, and answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import IO

import requests.utils
from msgspec import Struct

from reprobuild.errors import FetchError

# http.client sends blocks of 16 KiB, each with a timeout of its own; a piece read at once is divided into
# these.
_PIECE = 1 << 18


class Response(Struct, frozen=True, kw_only=True):
    """An answer of a server: status, headers and body.

    The names of headers are in small letters.
    """

    status: int
    headers: Mapping[str, str]
    content: bytes = b""

    @property
    def next_page(self) -> str:
        """The address of the next page in a `Link` header.

        The header is described in RFC 8288. It is empty if there is no next page.
        """
        links = requests.utils.parse_header_links(self.headers.get("link", ""))
        addresses = (link["url"] for link in links if "next" in link.get("rel", "").lower().split())
        return next(addresses, "")


class Body:
    """A request body: an open file from `start` on, repeatable.

    Args:
        stream: must be seekable.
        start: the first byte to send.
        size: of the complete file.
        sent: called with the number of bytes each time that some were taken.
    """

    def __init__(
        self, stream: IO[bytes], start: int, size: int, sent: Callable[[int], None] = lambda _: None
    ) -> None:
        self._stream, self._start, self._size, self._sent = stream, start, size, sent
        self._left = 0
        self.got_on: Callable[[], None] = lambda: None

    def __len__(self) -> int:
        return self._size - self._start

    def __iter__(self) -> Iterator[bytes]:
        """Yield the pieces; `requests` treats an iterable as a stream."""
        while piece := self.read(_PIECE):
            yield piece

    def begin(self) -> None:
        """Restart at the first byte."""
        self._stream.seek(self._start)
        self._left = len(self)

    def read(self, most: int = _PIECE) -> bytes:
        """Return the next bytes.

        Raises:
            FetchError: the file became shorter.
        """
        piece = self._stream.read(min(most, self._left, _PIECE))
        if not piece and self._left:
            raise FetchError("a file changed while it was sent", hint="run the command again")
        self._left -= len(piece)
        self._sent(len(piece))
        self.got_on()
        return piece
