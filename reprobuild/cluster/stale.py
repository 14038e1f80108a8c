"""Detection of verdicts of an earlier check. Pure.

The times in the verdict files are compared.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from reprobuild.cluster.answer_table import plain

FORM = "%Y-%m-%dT%H:%M:%SZ"
FAR = datetime.timedelta(hours=6)  # answers of one check are closer; those of a nightly one are farther
SKEW = datetime.timedelta(minutes=10)  # between the clocks of nodes, of the file server and of this machine


def old(made: Mapping[str, str], listed: float | None, now: str) -> dict[str, str]:
    """Return the nodes with earlier verdicts, and the reasons.

    Args:
        made: by node the time in its verdict, in UTC.
        listed: the time of the list of nodes, in seconds since 1970; it counts only if nodes have answered
            since.
        now: the time here, in UTC; empty if unknown. A later time does not count as the newest.
    """
    times = {node: _time(text) for node, text in made.items()}
    here = _time(now)
    told = [each for each in times.values() if each is not None]
    newest = max((each for each in told if here is None or each <= here + SKEW), default=None)
    begun = float("inf") if listed is None else listed - SKEW.total_seconds()
    since = any(each.timestamp() >= begun for each in told)
    found = {}
    for node, when in times.items():
        if when is None:
            found[node] = f"when its certificate was made is not known: {plain(made[node])}"
        elif newest and newest - when > FAR:
            found[node] = f"its certificate was made {when:{FORM}}, and the newest {newest:{FORM}}"
        elif since and when.timestamp() < begun:
            found[node] = f"its certificate was made {when:{FORM}}, before the list of nodes was written"
    return found


def _time(text: str) -> datetime.datetime | None:
    try:
        return datetime.datetime.strptime(text, FORM).replace(tzinfo=datetime.timezone.utc)
    except ValueError:
        return None
