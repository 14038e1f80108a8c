"""Moments as trackers write them."""

from __future__ import annotations

import datetime
import re


def to_iso(moment: object) -> str:
    """Return a moment in ISO 8601 and UTC; empty if it is not one."""
    try:
        if isinstance(moment, (int, float)):
            seconds = moment / 1000 if moment > 1e11 else moment
            return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).isoformat(
                timespec="seconds"
            )
        stated = moment if isinstance(moment, datetime.datetime) else _parse_iso(str(moment))
    except (ValueError, OverflowError, OSError):
        return ""
    aware = stated if stated.tzinfo else stated.replace(tzinfo=datetime.timezone.utc)
    return aware.astimezone(datetime.timezone.utc).isoformat(timespec="seconds")


def _parse_iso(moment: str) -> datetime.datetime:
    trimmed = re.sub(
        r"(\.\d{6})\d+", r"\1", moment.strip().replace("Z", "+00:00")
    )  # Python 3.10 reads six digits
    return datetime.datetime.fromisoformat(trimmed)
