"""Retries and rate limits: pauses between tries and requests."""

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
_WAITS = 10  # of the longest pause, that a server may ask for in all tries of a request
_FRESH = 3600


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """Limits of one client.

    Times are in seconds, sizes in bytes. `connect` and `read` are the limits of one connection and of one
    read, and both together of the time until the headers of an answer are complete; `least` is the minimum of
    a page in the time of one read, and `least_of_file` that of a file, which may be large: the slowest
    connection fetches 45 MiB a day; `tries` is the number of tries without progress; `pause` the time before
    the second try, doubled before each further one; `longest` the longest pause that a server may request by
    `Retry-After`; `page` and `page_time` the maximum size of a page and its maximum time; `file` the maximum
    size of a file of unknown size.
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
    """An error: a try failed, and another may succeed.

    `moved` is true if there was progress; `wait` is the server's requested pause, and `place` its address.
    """

    def __init__(
        self, final: FetchError, *, wait: float | None = None, place: str = "", moved: bool = False
    ) -> None:
        super().__init__(str(final))
        self.final, self.wait, self.place, self.moved = final, wait, place, moved


def retry_after(value: str | None, now: datetime.datetime | None = None) -> float | None:
    """Return the seconds that a `Retry-After` header requests (RFC 9110, 10.2.3).

    The result is None without a valid header.
    """
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:12])  # more digits exceed every limit
    try:
        when = email.utils.parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=datetime.timezone.utc)
    return max(0.0, (when - (now or datetime.datetime.now(datetime.timezone.utc))).total_seconds())


def freshness_seconds(headers: Mapping[str, str], *, login: bool) -> int:
    """Return the seconds for which an answer may be reused.

    The rules are those of RFC 9111, 4.2 and 5.2.2; at most it is an hour.

    Args:
        headers: of the answer.
        login: whether the request had a login; such an answer is not kept.
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
    """The earliest time of the next request to each host.

    All threads of a client share it.

    Args:
        manners: the limits.
        distances: the least number of seconds between the beginnings of two requests, by host, with or
            without its port.
    """

    def __init__(self, manners: RetryPolicy, distances: Mapping[str, float]) -> None:
        self._manners, self._distances = manners, dict(distances)
        self._free: dict[str, float] = {}
        self._guard = threading.Lock()

    def wait(self, url: str, halt: CancelToken) -> None:
        """Sleep until a request to an address's host may begin."""
        parts = urllib.parse.urlsplit(url)
        host = _host_and_port(url)
        distance = self._distances.get(host, self._distances.get(parts.hostname or "", 0.0))
        with self._guard:
            begin = max(time.monotonic(), self._free.get(host, 0.0))
            self._free[host] = begin + distance
        halt.sleep(begin - time.monotonic())

    def hold(self, url: str, seconds: float) -> None:
        """Delay all requests to an address's host for some time."""
        host = _host_and_port(url)
        with self._guard:
            self._free[host] = max(self._free.get(host, 0.0), time.monotonic() + seconds)

    def patiently(self, url: str, once: Callable[[], T], halt: CancelToken) -> T:
        """Call `once` until it raises no `RetryableError`, with growing pauses.

        Raises:
            FetchError: that of the last try, when the tries are used up, or the server requests too long a
                wait.
        """
        failures, waited = 0, 0.0
        while True:
            try:
                return once()
            except RetryableError as again:
                halt.check()
                failures = 1 if again.moved else failures + 1
                if failures >= self._manners.tries:
                    raise again.final from None
                pause = min(self._manners.pause * 2 ** (failures - 1), self._manners.longest)
                wait = again.wait or 0.0
                waited += wait
                if wait > self._manners.longest or waited > _WAITS * self._manners.longest:
                    raise FetchError(
                        f"{again.final}, and asks to wait for {wait:.0f} s",
                        hint="run the command again after that time; what is there by then is kept",
                    ) from None
                if wait:
                    self.hold(again.place or url, max(pause, wait))
                halt.sleep(pause)


def _host_and_port(url: str) -> str:
    """Return host and port, without a login."""
    return urllib.parse.urlsplit(url).netloc.rpartition("@")[2]
