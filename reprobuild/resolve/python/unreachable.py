"""Indexes, channels and builds of Python that cannot be had: one error that has them, and all else that cannot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reprobuild.errors import FetchError, LockError
from reprobuild.lock.model import Resolution
from reprobuild.resolve.acceptance import accept

_SHOWN = 5  # places, or projects that an index refuses
Lost = FetchError | LockError


def refuse_lost(lost: Sequence[Lost], rulings: Iterable[Resolution], accepted: Iterable[str]) -> None:
    """Stop where an index, a channel or the Python cannot be had, with all that the other lines lack.

    No class lets the lock go on without them: the image would lack all that comes from there.

    Args:
        lost: an error for each of them.
        rulings: of the lines that need none of them.
        accepted: classes, names and places that the user accepts.

    Raises:
        FetchError: an index or a channel cannot be had. LockError: only the Python cannot.
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
        accept(rulings, accepted)
    except LockError as err:
        lines.append(f"beside that, {err}")
        hints.append(err.hint)
        listing += err.listing
    kind = FetchError if any(isinstance(err, FetchError) for err in lost) else LockError
    raise kind("\n".join(lines), hint="\n".join(hints[:_SHOWN] + hints[_SHOWN:][-1:]), listing=listing)
