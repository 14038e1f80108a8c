"""Check that a list of distributions is a freeze.

A freeze has all requirements of its distributions.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from packaging.utils import canonicalize_name

from reprobuild.lock.model import Lock, Resolution
from reprobuild.lock.requirements import find_missing_names
from reprobuild.snapshot.model import Snapshot

LEAST = 5  # absent distributions: an environment that works may lack a few
SHARE = 5  # one of so many: a large environment may lack more of them
NO_FREEZE = "no-freeze"  # the class of such a list
ADD = "to add them, with the versions of the day of the run: "  # begins the last part of a reason
_SHOWN = 5


def rule_list(snapshot: Snapshot, lock: Lock) -> tuple[Resolution, ...]:
    """Return a resolution (`no-freeze`) for an incomplete list.

    Such a list lacks many requirements of its distributions; one that a person may have written lacks any.

    A list of `reprobuild capture` is a freeze. An unresolved line is not a gap of the list.
    """
    beside = lock.interpreter.shared is True  # the base image has distributions that the lock does not name
    if snapshot.captured is not None or beside or not snapshot.requirements:
        return ()
    names = {str(canonicalize_name(line.name)) for line in snapshot.requirements}
    gaps = sorted(find_missing_names(lock) - names)
    file = snapshot.requirements[0].place.file
    if gaps and _may_lack_requirements(snapshot):
        started = snapshot.imported.started if snapshot.imported else ""
        reason = _describe_gaps(gaps, started, solved=_is_solved(lock))
    elif len(gaps) < LEAST or len(gaps) * SHARE < len(names):
        return ()
    else:
        reason = (
            f"it is no freeze: its {len(names)} distributions require {len(gaps)} that it does not list, and that the "
            f"image will not have ({_shorten(gaps)}); write all of the environment that ran with "
            f"`pip freeze > {shlex.quote(file)}`; if it is gone, `--as-of DATE` chooses the versions of that day"
        )
    return (Resolution(file=file, line=0, subject=file, outcome="unresolved", reason=reason, kind=NO_FREEZE),)


def _may_lack_requirements(snapshot: Snapshot) -> bool:
    """Return whether a person may have written the list: so may one in a directory without other captured files."""
    if snapshot.imported:
        return snapshot.imported.may_lack_requirements
    others = (
        snapshot.packages, snapshot.variables, snapshot.modules, snapshot.patches, snapshot.conda, snapshot.rpms,
        snapshot.reports,
    )  # fmt: skip
    return not any(others)


def _is_solved(lock: Lock) -> bool:
    return lock.decisions.as_of is not None or any(ruling.outcome == "solved" for ruling in lock.rulings)


def _describe_gaps(gaps: Sequence[str], started: str, *, solved: bool) -> str:
    """Return the gap of a list, and the way to fill it: `--as-of` does not follow addresses, so the user must."""
    verb = "is" if len(gaps) == 1 else "are"
    add = (
        "write them into it with their versions"
        if solved
        else f"{ADD}--as-of {shlex.quote(started or 'DATE')}"
    )
    return f"the list is not complete: {_shorten(gaps)} {verb} required and missing; {add}"


def _shorten(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
