"""Moments in texts and numbers, within a run."""

import calendar
import math
import re
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List, Match, Optional, Pattern

SLACK = 2.0  # seconds around a run that count as within it: clocks of containers start before and end after
_DAY = 86400
_CLOCK = r"(?P<H>\d\d):(?P<M>\d\d):(?P<S>\d\d)(?:[.,]\d{1,9})?"
_ZONE = r"(?P<zone> ?(?:Z|UTC|GMT|[+-]\d\d:?\d\d))?"
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# The first two digits of an epoch exclude other numbers of ten digits; the run decides anyway.
_EPOCH = r"(?P<epoch>[12]\d{18}|[12]\d{15}|[12]\d{12}|[12]\d{9}(?:\.\d{1,9})?)"
_FORMS: "List[Pattern[str]]" = [
    re.compile(form)
    for form in (
        r"(?P<Y>\d{4})([-/.])(?P<m>\d\d)\2(?P<d>\d\d)(?:[T _,]| - )" + _CLOCK + _ZONE,
        r"(?P<Y>\d{4})-(?P<m>\d\d)-(?P<d>\d\d)/(?P<H>\d\d)-(?P<M>\d\d)-(?P<S>\d\d)",
        r"(?P<Y>\d{4})(?P<m>\d\d)(?P<d>\d\d)[-_T ]?(?P<H>\d\d):?(?P<M>\d\d):?(?P<S>\d\d)(?:\.\d{1,9})?"
        + _ZONE,
        r"(?P<m>\d\d)/(?P<d>\d\d)/(?P<Y>\d{4}|\d\d),? " + _CLOCK + r"(?P<half> [AP]M)?",
        r"(?P<m>\d\d)/(?P<d>\d\d) " + _CLOCK,
        r"[A-Z][a-z]{2} (?P<b>[A-Z][a-z]{2}) (?P<d>[ \d]\d) "
        + _CLOCK
        + r"(?P<zone> (?:UTC|GMT))? (?P<Y>\d{4})",
        r"(?P<b>[A-Z][a-z]{2}) (?P<d>[ \d]\d) " + _CLOCK,
        _EPOCH,
    )
]
_OF_DAY = re.compile(_CLOCK)


class Run:
    """One of the two runs: times, host, processes and time zone.

    The times are its begin and end in seconds since 1970.

    Args:
        pid: the number of the command's own process; 0 if unknown.
        zone: seconds by which the clock of the container is ahead of UTC.
        last: the last number that a process of the run can have.
    """

    def __init__(
        self, began: float, ended: float, host: str, pid: int = 0, zone: int = 0, last: int = 0
    ) -> None:
        self.began, self.ended, self.host = began - SLACK, ended + SLACK, host
        self.pid, self.zones = pid, {0, zone}
        self.last = max(pid, last)

    def owns(self, process: "Any") -> bool:
        """Return whether a number is that of a process of the run.

        It is the command's own, or of one that began later.
        """
        return type(process) is int and 0 < self.pid <= process <= self.last

    def moment(self, seconds: float) -> bool:
        """Return whether a time is within the run."""
        return self.began <= seconds <= self.ended

    def local(self, seconds: float) -> bool:
        """Return whether a UTC or container time is within the run."""
        return any(self.moment(seconds - zone) for zone in self.zones)

    def of_day(self, seconds: float) -> bool:
        """Return whether a time of the day is within the run.

        It may be by either clock.
        """
        for zone in self.zones:
            begin = (self.began + zone) % _DAY
            if begin <= seconds <= begin + self.ended - self.began:
                return True
            if begin <= seconds + _DAY <= begin + self.ended - self.began:
                return True
        return False

    def length(self, seconds: float) -> bool:
        """Return whether a duration fits into the run."""
        return 0 <= seconds <= self.ended - self.began

    def year(self) -> int:
        """Return the year of the run's end."""
        return time.gmtime(self.ended).tm_year


def epoch(value: float, run: "Run") -> bool:
    """Return whether a number is an epoch time of the run.

    It may be in seconds down to nanoseconds.
    """
    return math.isfinite(value) and any(run.moment(value / scale) for scale in (1, 1e3, 1e6, 1e9))


def find_moment_end(text: str, place: int, run: "Run") -> "Optional[int]":
    """Return the end of the run's moment at a position, or None."""
    for form in _FORMS:
        match = form.match(text, place)
        if match and not _number_continues(text, match.end()) and _is_within_run(match, run):
            return match.end()
    return None


def _number_continues(text: str, end: int) -> bool:
    rest = text[end : end + 2]
    return bool(rest) and (rest[0].isalnum() or (rest[0] in ".:_" and rest[1:].isdigit()))


def is_moment(value: "Any", run: "Run") -> bool:
    """Return whether a value is a moment of the run, with its date."""
    if isinstance(value, bool):
        return False
    if isinstance(value, (int, float)):
        return epoch(value, run)
    if not isinstance(value, str) or len(value) > 80:
        return False
    text = value.strip()
    return find_moment_end(text, 0, run) == len(text)


def of_day_at(text: str, place: int, run: "Run") -> "Optional[int]":
    """Return the end of the run's daytime at a position, or None."""
    match = _OF_DAY.match(text, place)
    if not match or _number_continues(text, match.end()) or not run.of_day(_seconds(match)):
        return None
    return match.end()


def _seconds(match: "Match[str]") -> int:
    return int(match.group("H")) * 3600 + int(match.group("M")) * 60 + int(match.group("S"))


def _is_within_run(match: "Match[str]", run: "Run") -> bool:
    parts = match.groupdict()
    if parts.get("epoch"):
        return epoch(float(parts["epoch"]), run)
    name = parts.get("b")
    month = _MONTHS.index(name) + 1 if name in _MONTHS else int(parts.get("m") or 0)
    year = int(parts["Y"]) if parts.get("Y") else run.year()
    day, seconds = int(parts["d"]), _seconds(match)
    if not (1 <= month <= 12 and 1 <= day <= 31 and seconds <= _DAY):
        return False
    if parts.get("half"):
        seconds = seconds % (12 * 3600) + (12 * 3600 if parts["half"] == " PM" else 0)
    moment = calendar.timegm((year + 2000 if year < 100 else year, month, day, 0, 0, 0)) + seconds
    zone = (parts.get("zone") or "").strip()
    return run.moment(moment - _zone_offset(zone)) if zone else run.local(moment)


def _zone_offset(zone: str) -> int:
    if zone in ("Z", "UTC", "GMT"):
        return 0
    digits = zone[1:].replace(":", "")
    return (int(digits[:2]) * 3600 + int(digits[2:]) * 60) * (-1 if zone[0] == "-" else 1)
