"""The age of a release, as an interval, with its evidence."""

from __future__ import annotations

import datetime

from msgspec import Struct

FAR = 1 << 33  # seconds; no bound
DAY = 86400
# Days of the times that tools write for reproducible builds: the first of zip, flit's and hatchling's own constants,
# those of cargo (2006) and of other back ends, and the first of Unix.
_CONSTANTS = frozenset(
    (
        "1970-01-01", "1979-12-31", "1980-01-01", "1985-10-26", "2000-01-01", "2006-07-24", "2016-01-01",
        "2020-01-01", "2020-02-02",
    )
)  # fmt: skip


class Age(Struct, frozen=True, kw_only=True):
    """Bounds of the time of an upload, in seconds since 1970, and their evidence in words."""

    since: int = 0
    until: int = FAR
    words: str = ""

    def side(self, moment: int) -> int:
        """Return -1 if it was uploaded before a moment, 1 if after, 0 if the bounds do not decide."""
        if self.since > self.until:
            return 0
        return -1 if self.until <= moment else 1 if self.since > moment else 0

    def meet(self, other: Age, moment: int) -> Age:
        """Return the common bounds of two ages, with the words of the one that decides."""
        both = Age(since=max(self.since, other.since), until=min(self.until, other.until))
        decides = self if both.side(moment) == self.side(moment) else other
        return Age(since=both.since, until=both.until, words=decides.words)


def is_constant(seconds: int, *, same: bool, now: int) -> bool:
    """Return whether a time is no evidence: a constant of reproducible builds, or not a time of the past.

    Args:
        same: whether all members of the archive have this time.
        now: in seconds since 1970, or 0.
    """
    if seconds <= 0 or seconds >= FAR or (now and seconds > now + DAY):
        return True
    return day(seconds) in _CONSTANTS or (same and seconds % DAY == 0)


def day(seconds: int) -> str:
    """Return the day of a time."""
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%d")


def parse_time(text: str) -> int | None:
    """Return a time of RFC 3339 in seconds since 1970, or None if it is not one, or earlier."""
    try:
        moment = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
        zoned = moment if moment.tzinfo else moment.replace(tzinfo=datetime.timezone.utc)
        seconds = int(zoned.timestamp())
    except (ValueError, OverflowError):
        return None
    return min(seconds, FAR) if seconds >= 0 else None  # a zone may lead out of the years of `datetime`
