"""How patient and how polite the client is: pauses between tries, distances between requests to one host."""

from __future__ import annotations

import datetime
import email.utils
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping
from typing import TypeVar

from msgspec import Struct

from reprobuild.errors import FetchError
from reprobuild.infra.cancel import CancelToken

T = TypeVar("T")
MIB = 1 << 20
_FRESH = 3600


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """Limits of one client. Times are in seconds, sizes in bytes.

    `connect` and `read` are how long one connection and one read may take, and both together how long it may take
    until the headers of an answer are whole; `least` is what must come of a page in the time of one read, and
    `least_of_file` of a file, which may be large: the slowest line brings 45 MiB a day; `tries` is how often one
    thing is tried without getting on; `pause` the time before the second try, doubled before each further one;
    `longest` the longest pause that a server may ask for by `Retry-After`;
    `page` and `page_time` how large a page may be and
    how long it may take; `file` how large a file of unknown size may be.
    """

    connect: float = 15
    read: float = 120
    least: int = 1024
    least_of_file: int = 64 << 10
    tries: int = 5
    pause: float = 0.5
    longest: float = 120
    page: int = 512 * MIB  # the largest index of a distribution has some 100 MiB
    page_time: float = 1800
    file: int = 64 << 30


class RetryableError(Exception):
    """One try failed, and another may not.

    `moved` tells whether it got on; `wait` is what the server asks for, and `place` its address.
    """

    def __init__(
        self, final: FetchError, *, wait: float | None = None, place: str = "", moved: bool = False
    ) -> None:
        super().__init__(str(final))
        self.final, self.wait, self.place, self.moved = final, wait, place, moved


def retry_after(value: str | None, now: datetime.datetime | None = None) -> float | None:
    """Return the seconds that a `Retry-After` header asks for (RFC 9110, 10.2.3), None where it asks nothing."""
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:12])  # more digits are more than every limit
    try:
        when = email.utils.parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=datetime.timezone.utc)
    return max(0.0, (when - (now or datetime.datetime.now(datetime.timezone.utc))).total_seconds())


def fresh_for(headers: Mapping[str, str], *, login: bool) -> int:
    """Return for how many seconds an answer may be used again (RFC 9111, 4.2 and 5.2.2), at most an hour.

    Args:
        headers: of the answer.
        login: whether it was asked for with a login; nothing of that is kept.
    """
    words = [word.strip().lower() for word in headers.get("Cache-Control", "").split(",")]
    ages = [word.partition("=")[2].strip('"') for word in words if word.startswith("max-age=")]
    if login or {"no-store", "no-cache", "private"} & set(words) or not ages:
        return 0
    age = headers.get("Age", "0")
    if not all(text.isascii() and text.isdigit() and len(text) < 10 for text in (ages[0], age)):
        return 0
    return max(0, min(int(ages[0]) - int(age), _FRESH))


class RateLimiter:
    """When the next request to a host may begin; shared by all threads of a client.

    Args:
        manners: the limits.
        distances: the least number of seconds between the beginnings of two requests, by host, with or without
            its port.
    """

    def __init__(self, manners: RetryPolicy, distances: Mapping[str, float]) -> None:
        self._manners, self._distances = manners, dict(distances)
        self._free: dict[str, float] = {}
        self._guard = threading.Lock()

    def wait(self, url: str, halt: CancelToken) -> None:
        """Sleep until a request to the host of this address may begin."""
        parts = urllib.parse.urlsplit(url)
        host = _place(url)
        distance = self._distances.get(host, self._distances.get(parts.hostname or "", 0.0))
        with self._guard:
            begin = max(time.monotonic(), self._free.get(host, 0.0))
            self._free[host] = begin + distance
        halt.sleep(begin - time.monotonic())

    def hold(self, url: str, seconds: float) -> None:
        """Let no request to the host of this address begin for some time."""
        host = _place(url)
        with self._guard:
            self._free[host] = max(self._free.get(host, 0.0), time.monotonic() + seconds)

    def patiently(self, url: str, once: Callable[[], T], halt: CancelToken) -> T:
        """Call `once` until it gives no `RetryableError`, with growing pauses.

        Raises:
            FetchError: the last try's, when the tries are used up, or the server asks to wait for too long.
        """
        failures = 0
        while True:
            try:
                return once()
            except RetryableError as again:
                halt.check()
                failures = 1 if again.moved else failures + 1
                if failures >= self._manners.tries:
                    raise again.final from None
                own = min(self._manners.pause * 2 ** (failures - 1), self._manners.longest)
                asked = again.wait or 0.0
                if asked > self._manners.longest:
                    raise FetchError(
                        f"{again.final}, and asks to wait for {asked:.0f} s",
                        hint="run the command again after that time; what is there by then is kept",
                    ) from None
                if asked:
                    self.hold(again.place or url, max(own, asked))
                halt.sleep(own)


def _place(url: str) -> str:
    """Return host and port, without a login."""
    return urllib.parse.urlsplit(url).netloc.rpartition("@")[2]
