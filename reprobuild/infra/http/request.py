"""What is sent, and what comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import IO

import requests.utils
from msgspec import Struct

from reprobuild.errors import FetchError

# Of http.client's blocks, of 16 KiB each, each has a time of its own; what is read at once has no more of them.
_PIECE = 1 << 18


class Response(Struct, frozen=True, kw_only=True):
    """What a server answered: its number, its headers by their names in small letters, and its body."""

    status: int
    headers: Mapping[str, str]
    content: bytes = b""

    @property
    def following(self) -> str:
        """The address of the next page, as a `Link` header tells it (RFC 8288); empty where there is none."""
        links = requests.utils.parse_header_links(self.headers.get("link", ""))
        found = (one["url"] for one in links if "next" in one.get("rel", "").lower().split())
        return next(found, "")


class Body:
    """Bytes of an open file that are sent, from `start` on; they can be sent again.

    Args:
        stream: can be sought in.
        start: the first byte that is sent.
        size: of the whole file.
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
        """Yield the pieces; `requests` takes what can be iterated over for a stream."""
        while piece := self.read(_PIECE):
            yield piece

    def begin(self) -> None:
        """Start with the first byte again."""
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
