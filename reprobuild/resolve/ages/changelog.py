"""The date of a release in its own list of changes.

Such lists have a heading for each version, with its date in the heading or below it: `## 0.27.2 (27th August, 2024)`.
Those of Jupyter name the days between which people contributed to the version.
"""

from __future__ import annotations

import calendar
import io
import re
from collections.abc import Iterator

LARGEST = 4 << 20  # of the lists of changes of an archive
_LARGEST_ENTRY = 1 << 14
_NAME = re.compile(
    r"(?:change(?:s|log)|history|news|release[-_]?notes|releases)(?:\.(?:md|rst|txt))?", re.IGNORECASE
)
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTH = r"(?P<word>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}"
_DATES = (
    re.compile(r"(?<![0-9A-Za-z])(?P<year>20\d\d)-?(?P<month>[01]\d)-?(?P<day>[0-3]\d)(?![0-9A-Za-z])"),
    re.compile(
        rf"(?<!\d)(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\.? {_MONTH}\.?,? (?P<year>20\d\d)(?!\d)", re.IGNORECASE
    ),
    re.compile(rf"\b{_MONTH}\.? (?P<day>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<year>20\d\d)(?!\d)", re.IGNORECASE),
)
_HEADING = re.compile(
    r"[^A-Za-z0-9]{0,12}(?:[A-Za-z0-9_.-]{1,40} )?\[?v?(?P<version>\d+(?:\.\d+)+[A-Za-z0-9.]*)"
)


def is_changelog(path: str) -> bool:
    """Return whether a file of a source archive may be its list of changes."""
    return path.count("/") <= 4 and _NAME.fullmatch(path.rpartition("/")[2]) is not None


def read_entry_day(text: str, version: str) -> int | None:
    """Return the newest day in a version's entry, in seconds since 1970, or None without a day."""
    entry = _find_entry(text[:LARGEST], version)
    return max((seconds for pattern in _DATES for seconds in _days(pattern, entry)), default=None)


def _find_entry(text: str, version: str) -> str:
    """Return the lines from a version's heading to the next heading."""
    rows: list[str] = []
    size = 0
    for row in io.StringIO(text):
        heading = _HEADING.match(row[:200])
        named = heading["version"].rstrip(".") if heading else ""
        if rows and named and named != version:
            break
        if rows or named == version:
            rows.append(row[:2000].rstrip("\r\n"))
            size += len(rows[-1])
        if size > _LARGEST_ENTRY:
            break
    return "\n".join(rows)


def _days(pattern: re.Pattern[str], text: str) -> Iterator[int]:
    for match in pattern.finditer(text):
        parts = match.groupdict()
        month = int(parts["month"]) if parts.get("month") else _MONTHS.index(parts["word"].lower()) + 1
        year, number = int(parts["year"]), int(parts["day"])
        if 1 <= month <= 12 and 1 <= number <= calendar.monthrange(year, month)[1]:
            yield calendar.timegm((year, month, number, 0, 0, 0))
