"""Unavailable indexes, channels and Pythons, in one error.

The error also lists the other problems.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reprobuild.errors import FetchError, LockError
from reprobuild.lock.model import Resolution
from reprobuild.resolve.acceptance import accept_deviations

_SHOWN = 5  # places, or projects that an index refuses
Lost = FetchError | LockError


def check_availability(lost: Sequence[Lost], rulings: Iterable[Resolution], accepted: Iterable[str]) -> None:
    """Refuse a lock if an index, channel or Python is unavailable.

    The error lists the problems of the other lines, too.

    No class lets the lock go on without them: the image would lack all their packages.

    Args:
        lost: an error for each of them.
        rulings: resolutions of the lines that do not need them.
        accepted: classes, names and places that the user accepts.

    Raises:
        FetchError: an index or a channel is unavailable. LockError: only the Python is.
    """
    if not lost:
        return
    more = len(lost) - _SHOWN
    lines = [*map(str, lost[:_SHOWN]), *([f"and {more} more answers like these"] if more > 0 else [])]
    hints, listing = (
        list(dict.fromkeys(err.hint for err in lost)),
        [str(err) for err in lost] if more > 0 else [row for err in lost for row in err.listing],
    )
    try:
        accept_deviations(rulings, accepted)
    except LockError as err:
        lines.append(f"beside that, {err}")
        hints.append(err.hint)
        listing += err.listing
    kind = FetchError if any(isinstance(err, FetchError) for err in lost) else LockError
    raise kind("\n".join(lines), hint="\n".join(hints[:_SHOWN] + hints[_SHOWN:][-1:]), listing=listing)
