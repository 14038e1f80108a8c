"""Indexes of the machine that give no list: one error that has them, and all else that cannot be had."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reprobuild.errors import FetchError, LockError
from reprobuild.lock import Ruling
from reprobuild.resolve.acceptance import accept
from reprobuild.resolve.freeze.pages import NoList

_SHOWN = 5  # indexes, or projects that an index refuses


def refuse_lost(lost: Sequence[NoList], rulings: Iterable[Ruling], accepted: Iterable[str]) -> None:
    """Stop where an index of the machine gave no list, with all that the other lines lack.

    No class lets the lock go on without the index: the image would lack all that comes from it.

    Args:
        lost: the indexes.
        rulings: of the lines that need none of them.
        accepted: classes, names and places that the user accepts.

    Raises:
        FetchError: there is such an index.
    """
    if not lost:
        return
    more = len(lost) - _SHOWN
    lines = [*map(str, lost[:_SHOWN]), *([f"and {more} more answers like these"] if more > 0 else [])]
    hints, listing = (
        list(dict.fromkeys(err.hint for err in lost)),
        [str(err) for err in lost] if more > 0 else [],
    )
    try:
        accept(rulings, accepted)
    except LockError as err:
        lines.append(f"beside what these indexes have, {err}")
        hints.append(err.hint)
        listing += err.listing
    raise FetchError("\n".join(lines), hint="\n".join(hints[:_SHOWN] + hints[_SHOWN:][-1:]), listing=listing)
