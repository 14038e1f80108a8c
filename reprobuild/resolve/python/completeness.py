"""Whether a list of distributions is a freeze: a freeze has all that its distributions require."""

from __future__ import annotations

import shlex

from packaging.utils import canonicalize_name

from reprobuild.lock.model import Lock, Resolution
from reprobuild.lock.requirements import absent
from reprobuild.snapshot.model import Snapshot

LEAST = 5  # distributions that are absent: an environment that works may lack a few
SHARE = 5  # one of so many: a large environment may lack more of them
_SHOWN = 5


def rule_list(snapshot: Snapshot, lock: Lock) -> tuple[Resolution, ...]:
    """Rule a list (`no-freeze`) that lacks much of what its distributions require.

    What `reprobuild capture` wrote is a freeze. A line that became nothing is no gap of the list.
    """
    beside = (
        lock.interpreter.shared is True
    )  # the base image brings distributions that the lock does not name
    if snapshot.captured is not None or beside or not snapshot.requirements:
        return ()
    listed = {str(canonicalize_name(line.name)) for line in snapshot.requirements}
    gaps = sorted(absent(lock) - listed)
    if len(gaps) < LEAST or len(gaps) * SHARE < len(listed):
        return ()
    file = snapshot.requirements[0].place.file
    more = f" and {len(gaps) - _SHOWN} more" if len(gaps) > _SHOWN else ""
    reason = (
        f"it is no freeze: its {len(listed)} distributions require {len(gaps)} that it does not list, and that the "
        f"image will not have ({', '.join(gaps[:_SHOWN])}{more}); write all of the environment that ran with "
        f"`pip freeze > {shlex.quote(file)}`; if it is gone, choose versions of today with "
        f"`uv pip compile {shlex.quote(file)} -o pinned.txt` and put them into {file}"
    )
    return (
        Resolution(file=file, line=0, subject=file, outcome="unresolved", reason=reason, kind="no-freeze"),
    )
