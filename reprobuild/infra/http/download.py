"""A file that grows over several answers, with its hash."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import requests
from requests.structures import CaseInsensitiveDict

from reprobuild.errors import FetchError
from reprobuild.infra.atomic import add_path_to_errors
from reprobuild.infra.cancel import CancelToken
from reprobuild.infra.directory_fd import append_to_file
from reprobuild.infra.http.model import CHUNK, OTHER, PACKED, PAGE, WrongSizeError
from reprobuild.infra.http.retry import RetryableError, RetryPolicy
from reprobuild.infra.http.stream import StreamInterruptedError, read_body

_LENGTH = re.compile(r"[0-9]{1,15}")
_RANGE = re.compile(r"bytes (?:([0-9]{1,15})-[0-9]{1,15}|\*)/([0-9]{1,15}|\*)")
_REST = "run the command again: it goes on where this one stopped"


class Download:
    """The growing file at `part`, kept and completed.

    Args:
        url: its source, without credentials.
        part: the file.
        size: of the complete file, 0 if unknown.
        manners: limits, including the maximum size of a file of unknown size.
        progress: called with the number of received bytes (including those already there).
        halt: cancels it; the bytes so far stay.
    """

    def __init__(
        self,
        url: str,
        part: Path,
        size: int,
        manners: RetryPolicy,
        progress: Callable[[int], None],
        halt: CancelToken,
    ) -> None:
        self._url, self._part, self._size, self._progress = url, part, size, progress
        self._halt = halt
        self._manners, self._most = manners, size or manners.file
        self._digest = hashlib.sha256()
        self._have = self._highest = 0
        self._etag = ""
        if part.exists() and part.stat().st_size > self._most:
            self._restart()  # a file of another, which may be endless, is not read
        elif part.exists():
            with part.open("rb") as stream:
                while chunk := stream.read(CHUNK):
                    self._add_bytes(chunk)
        if size and self._have > size:
            self._restart()

    @property
    def digest(self) -> str:
        """The sha256 (hex) of the bytes so far."""
        return self._digest.hexdigest()

    @property
    def complete(self) -> bool:
        """Whether the file has its expected size; False if unknown."""
        return bool(self._size) and self._have == self._size

    def headers(self) -> dict[str, str]:
        """Return the headers that request the rest.

        If the file has changed since the first answer, they request all of it.
        """
        result = {"Accept-Encoding": "identity"}
        if self._have:
            result["Range"] = f"bytes={self._have}-"
            if self._etag and not self._etag.startswith("W/"):
                result["If-Range"] = self._etag
        return result

    def take(self, response: requests.Response) -> None:
        """Append the body of an answer.

        Raises:
            WrongSizeError: it is another file. RetryableError: it broke off, or does not fit the bytes so far.
            OSError: the disk is full.
        """
        if response.status_code == requests.codes.requested_range_not_satisfiable:
            return  # there is no more: the hash shows if the file is right
        start, total = _parse_range(response)
        if start != self._have:
            self._restart()
            if start:
                raise RetryableError(
                    self._interruption_error("the server sent another part than was asked for")
                )
        if self._size and total is not None and total != self._size:
            raise WrongSizeError(
                f"{self._url} has {total} bytes, and {self._size} are expected", hint=_mismatch_hint(response)
            )
        if total is not None and total > self._most:
            raise self._endless()
        self._etag = response.headers.get("ETag", "")
        with add_path_to_errors(self._part), append_to_file(self._part) as stream:
            try:
                for piece in read_body(
                    response, CHUNK, self._manners, self._manners.least_of_file, self._halt, decode=False
                ):
                    stream.write(piece)
                    self._add_bytes(piece)
                    if self._have > self._most:
                        raise self._endless()
            except StreamInterruptedError as stopped:
                raise RetryableError(
                    self._interruption_error(str(stopped)), moved=self._has_progressed()
                ) from None
        if total is not None and self._have < total:
            raise RetryableError(
                self._interruption_error("the server closed the connection"), moved=self._has_progressed()
            )

    def _add_bytes(self, chunk: bytes) -> None:
        self._digest.update(chunk)
        self._have += len(chunk)
        self._progress(len(chunk))
        self._halt.check()

    def _restart(self) -> None:
        self._part.unlink(missing_ok=True)
        self._digest, self._have, self._etag = hashlib.sha256(), 0, ""

    def _has_progressed(self) -> bool:
        """Return whether more bytes are there than ever before.

        A server that always restarts makes progress once.
        """
        moved = self._have >= self._highest + CHUNK
        self._highest = max(self._highest, self._have)
        return moved

    def _endless(self) -> WrongSizeError:
        return WrongSizeError(f"{self._url} gives more than {self._most} bytes", hint=OTHER)

    def _interruption_error(self, reason: str) -> FetchError:
        of = f" of {self._size}" if self._size else ""
        return FetchError(
            f"the download of {self._url} broke off after {self._have}{of} bytes: {reason}", hint=_REST
        )


def _mismatch_hint(response: requests.Response) -> str:
    headers: CaseInsensitiveDict[str] = response.headers
    if headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity"):
        return PACKED
    return PAGE if headers.get("Content-Type", "").lower().startswith("text/html") else OTHER


def _parse_range(response: requests.Response) -> tuple[int, int | None]:
    """Return an answer's offset in the file, and the size.

    The size is the complete file's. It is None if it is not stated.
    """
    headers: CaseInsensitiveDict[str] = response.headers
    if response.status_code == requests.codes.partial_content:
        match = _RANGE.fullmatch(headers.get("Content-Range", "").strip())
        if match and match[1]:
            return int(match[1]), None if match[2] == "*" else int(match[2])
        return -1, None
    length = headers.get("Content-Length", "")
    return 0, int(length) if _LENGTH.fullmatch(length) else None
