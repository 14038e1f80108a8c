"""Unavailable indexes, channels and Pythons, in one error.

The error also lists the other problems.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reprobuild.ecosystems.pypi.simple_api import NoListError
from reprobuild.errors import FetchError, LockError, SnapshotError
from reprobuild.lock.model import Resolution
from reprobuild.resolve.acceptance import accept_deviations

_SHOWN = 5  # places, or projects that an index refuses
Lost = FetchError | LockError | SnapshotError


def check_availability(lost: Sequence[Lost], rulings: Iterable[Resolution], accepted: Iterable[str]) -> None:
    """Refuse a lock if an index, channel or Python is unavailable.

    The error lists the problems of the other lines, too.

    No class lets the lock go on without them: the image would lack all their packages.

    Args:
        lost: an error for each of them.
        rulings: resolutions of the lines that do not need them.
        accepted: classes, names and places that the user accepts.

    Raises:
        FetchError: an index or a channel is unavailable. LockError: only the Python is. SnapshotError: only a
            source of the snapshot is refused.
    """
    lost = _merge(lost)
    if not lost:
        return
    shown = max(_SHOWN, len({err.place if isinstance(err, NoListError) else str(err) for err in lost}))
    more = len(lost) - shown
    lines = [*map(str, lost[:shown]), *([f"and {more} more answers like these"] if more > 0 else [])]
    hints, listing = (
        list(dict.fromkeys(err.hint for err in lost)),
        [str(err) for err in lost] if more > 0 else [row for err in lost for row in err.listing],
    )
    refused = [facts for err in lost for facts in err.refused]
    options = [text for err in lost for text in err.options]
    try:
        accept_deviations(rulings, accepted)
    except LockError as err:
        lines.append(f"beside that, {err}")
        hints.append(err.hint)
        listing += err.listing
        refused += err.refused
        options += err.options
    kinds = (FetchError, LockError, SnapshotError)
    kind = next(kind for kind in kinds if any(isinstance(err, kind) for err in lost))
    raise kind(
        "\n".join(lines), hint="\n".join(hints[:shown] + hints[shown:][-1:]), listing=listing, options=options,
        refused=refused,
    )  # fmt: skip


def _merge(lost: Sequence[Lost]) -> list[Lost]:
    """Return errors without repeated texts, one of each place first."""
    errors = list({str(err): err for err in lost}.values())
    places: dict[str, Lost] = {}
    for err in errors:
        places.setdefault(err.place if isinstance(err, NoListError) else str(err), err)
    first = list(places.values())
    return first + [err for err in errors if err not in first]
