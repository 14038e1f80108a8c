"""Detection of verdicts of an earlier check. Pure.

The times in the verdict files are compared.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from reprobuild.cluster.answer_table import escape_text

FORM = "%Y-%m-%dT%H:%M:%SZ"
FAR = datetime.timedelta(hours=6)  # answers of one check are closer; those of a nightly one are farther
SKEW = datetime.timedelta(minutes=10)  # between the clocks of nodes, of the file server and of this machine


def find_stale(timestamps: Mapping[str, str], list_time: float | None, now: str) -> dict[str, str]:
    """Return the nodes with earlier verdicts, and the reasons.

    Args:
        timestamps: by node the time in its verdict, in UTC.
        list_time: the time of the list of nodes, in seconds since 1970; it counts only if nodes have answered
            since.
        now: the time here, in UTC; empty if unknown. A later time does not count as the newest.
    """
    times = {node: _parse_time(text) for node, text in timestamps.items()}
    here = _parse_time(now)
    known_times = [moment for moment in times.values() if moment is not None]
    newest = max((moment for moment in known_times if here is None or moment <= here + SKEW), default=None)
    begun = float("inf") if list_time is None else list_time - SKEW.total_seconds()
    since = any(moment.timestamp() >= begun for moment in known_times)
    reasons = {}
    for node, when in times.items():
        if when is None:
            reasons[node] = f"when its verdict was made is not known: {escape_text(timestamps[node])}"
        elif newest and newest - when > FAR:
            reasons[node] = f"its verdict was made {when:{FORM}}, and the newest {newest:{FORM}}"
        elif since and when.timestamp() < begun:
            reasons[node] = f"its verdict was made {when:{FORM}}, before the list of nodes was written"
    return reasons


def _parse_time(text: str) -> datetime.datetime | None:
    try:
        return datetime.datetime.strptime(text, FORM).replace(tzinfo=datetime.timezone.utc)
    except ValueError:
        return None
