"""File names that differ only by the time or host of a run."""

from __future__ import annotations

import calendar
import re

# As `2026-01-31_12-30-00`, `2026-01-31/12-30-00` and `1795321800`.
_TIMED = re.compile(
    r"(?<!\d)(?:(\d{4})-?(\d\d)-?(\d\d)[T/_-]?(\d\d)[:_-]?(\d\d)[:_-]?(\d\d)(?:[._]\d+)?|([12]\d{9}(?:\.\d+)?))(?!\d)"
)
_TEMPORARY = re.compile(r"/tmp/(?:tmp|pymp-)[a-z0-9_]{8}(?![\w.-])")  # names that Python's tempfile draws
# The directory of a run of MLflow: a random UUID, of version 4 by its form.
_RUN = re.compile(r"((?:^|/)mlruns/\d{1,20}/)[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}(?=/|$)")
# An event file of TensorBoard, with a mark instead of its time: the host, the process, a number.
_EVENTS = re.compile(r"((?:^|/)events\.out\.tfevents\.<time>\.[^/]{1,255}\.)(\d{1,10})(\.\d{1,9}(?:\.v2)?)$")
_SLACK = 2.0  # seconds by which clocks of containers start before and end after


def mask_run_parts(
    path: str, began: float, ended: float, host: str, zone: int = 0, processes: tuple[int, int] = (0, 0)
) -> str:
    """Return a path with marks for the run's own parts.

    They are times within the run, its host, and drawn names.

    Args:
        began, ended: in seconds since 1970.
        zone: seconds by which the run's clock is ahead of UTC.
        processes: the first and the last number of the run's processes.
    """

    def mark(match: re.Match[str]) -> str:
        if match[7]:
            moments = {float(match[7])}
        else:
            try:
                local = calendar.timegm(tuple(int(part) for part in match.groups()[:6]))
            except ValueError:  # digits that are not a date: month 13, year 0
                return match.group()
            moments = {float(local), float(local - zone)}
        in_run = any(began - _SLACK <= moment <= ended + _SLACK for moment in moments)
        return "<time>" if in_run else match.group()

    if host:
        path = re.sub(rf"(?<![A-Za-z0-9]){re.escape(host)}(?![A-Za-z0-9])", "<host>", path)

    def process(match: re.Match[str]) -> str:
        is_process = 0 < processes[0] <= int(match[2]) <= processes[1]
        return f"{match[1]}<process>{match[3]}" if is_process else match.group()

    path = _RUN.sub(r"\1<run>", _TEMPORARY.sub("/tmp/<name>", _TIMED.sub(mark, path)))
    return _EVENTS.sub(process, path)
