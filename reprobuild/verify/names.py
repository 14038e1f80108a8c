"""Names of files that differ between two runs in nothing but the time or the host of their run."""

from __future__ import annotations

import calendar
import re

# As `2026-01-31_12-30-00` and `1795321800`.
_TIMED = re.compile(
    r"(?<!\d)(?:(\d{4})-?(\d\d)-?(\d\d)[T_-]?(\d\d)[:_-]?(\d\d)[:_-]?(\d\d)(?:[._]\d+)?|([12]\d{9}(?:\.\d+)?))(?!\d)"
)
_TEMPORARY = re.compile(r"/tmp/(?:tmp|pymp-)[a-z0-9_]{8}(?![\w.-])")  # names that Python's tempfile draws
_SLACK = 2.0  # seconds by which clocks of containers start before and end after


def timeless(path: str, began: float, ended: float, host: str, zone: int = 0) -> str:
    """Return a path with marks for the times within a run, for its host, and for drawn names.

    Args:
        began, ended: in seconds since 1970.
        zone: seconds by which the run's clock is ahead of UTC.
    """

    def mark(found: re.Match[str]) -> str:
        if found[7]:
            moments = {float(found[7])}
        else:
            try:
                local = calendar.timegm(tuple(int(part) for part in found.groups()[:6]))
            except ValueError:  # digits that are no date: month 13, year 0
                return found.group()
            moments = {float(local), float(local - zone)}
        within = any(began - _SLACK <= moment <= ended + _SLACK for moment in moments)
        return "<time>" if within else found.group()

    if host:
        path = re.sub(rf"(?<![A-Za-z0-9]){re.escape(host)}(?![A-Za-z0-9])", "<host>", path)
    return _TEMPORARY.sub("/tmp/<name>", _TIMED.sub(mark, path))
