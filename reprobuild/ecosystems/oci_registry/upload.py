"""A resumable upload of a blob to a registry.

It is sent in one piece. https://github.com/opencontainers/distribution-spec/blob/v1.1.0/spec.md, "Pushing a
blob in chunks".
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Callable
from typing import IO

from reprobuild.ecosystems.oci_registry.manifest import display_text
from reprobuild.errors import DistributionError
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.model import CHUNK, NotFoundError
from reprobuild.infra.http.request import Body, Response
from reprobuild.infra.http.retry import RetryableError

_RANGE = re.compile(r"(?:bytes=)?0-(\d{1,18})")
_ELSEWHERE = "a registry behind a proxy must know its own address (`http: host:` of its configuration)"


class Upload:
    """An upload of one blob.

    Args:
        net: with the user's logins.
        begin: the address that starts an upload.
        stream: the content; it must be seekable.
        size: of it, in bytes.
        sent: called with the number of sent bytes.
    """

    def __init__(
        self, net: Net, begin: str, stream: IO[bytes], size: int, sent: Callable[[int], None]
    ) -> None:
        self._net, self._begin, self._stream, self._size, self._sent = net, begin, stream, size, sent
        self._place = ""
        self._highest = 0

    def finished(self) -> str:
        """Send all bytes; return the address that closes the upload.

        Raises:
            FetchError: the registry cannot be reached, or refuses. DistributionError: it leads elsewhere.
            OSError: the stream cannot be read.
        """
        return self._net.patiently(self._begin, self._step)

    def _step(self) -> str:
        start = self._received_bytes() if self._place else 0
        moved = start >= self._highest + CHUNK  # a registry that keeps a byte each time would never end
        self._highest = max(start, self._highest)
        if not start:
            self._place = self._led(self._net.send("POST", self._begin, good=(202,)))
        if start == self._size:
            return self._place
        headers = {"Content-Type": "application/octet-stream"}
        if start:
            headers["Content-Range"] = f"{start}-{self._size - 1}"
        body = Body(self._stream, start, self._size, self._sent)
        try:
            answer = self._net.send(
                "PATCH", self._place, good=(202,), body=body, headers=headers, patient=False
            )
        except RetryableError as again:
            raise RetryableError(again.final, wait=again.wait, place=again.place, moved=moved) from None
        self._place = self._led(answer)
        return self._place

    def _received_bytes(self) -> int:
        """Return the received bytes of an interrupted upload.

        The result is 0 if the registry does not know the upload.
        """
        try:
            answer = self._net.send("GET", self._place, good=(204, 200))
        except NotFoundError:
            return 0
        match = _RANGE.fullmatch(answer.headers.get("range", ""))
        have = int(match[1]) + 1 if match and match[1] != "0" else 0  # `0-0` means no byte or one byte
        if have > self._size:
            return 0
        self._place = self._led(answer) if "location" in answer.headers else self._place
        return have

    def _led(self, answer: Response) -> str:
        """Return the next address of the upload.

        Blobs and logins are sent only to the registry itself.

        Raises:
            DistributionError: it leads to another host, or states no address.
        """
        location = answer.headers.get("location", "")
        try:
            target = urllib.parse.urljoin(self._begin, location)
            if location and urllib.parse.urlsplit(target)[:2] == urllib.parse.urlsplit(self._begin)[:2]:
                return target
        except ValueError:  # not an address
            pass
        host = urllib.parse.urlsplit(self._begin).netloc
        place = display_text(location.partition("?")[0].rpartition("@")[2]) or "nowhere"
        raise DistributionError(f"{host} wants what is sent to it elsewhere: {place}", hint=_ELSEWHERE)
