"""The package lists that apt had on the captured machine.

They are evidence of the time and the archives of its last update.
"""

from __future__ import annotations

from datetime import datetime, timezone
from email.utils import parsedate_to_datetime

from reprobuild.infra.display import display_text
from reprobuild.snapshot.capture_document import CaptureDocument
from reprobuild.snapshot.model import AptList

_FETCHED = "%Y-%m-%dT%H:%M:%SZ"


def read_apt_lists(document: CaptureDocument) -> tuple[AptList, ...]:
    """Return apt's lists in a capture, in its order.

    A time that cannot be read is None.
    """
    return tuple(
        AptList(
            file=display_text(apt_list.file),
            date=_parse_release_date(apt_list.date),
            fetched=_parse_fetch_time(apt_list.dated),
            origin=display_text(apt_list.origin),
            suite=display_text(apt_list.suite),
            codename=display_text(apt_list.codename),
        )
        for apt_list in (document.dpkg.lists if document.dpkg else ())
    )


def _parse_release_date(date: str) -> int | None:
    """Return a Release file's Date in seconds since 1970, or None.

    The form is `Sat, 11 Jul 2026 10:16:37 UTC`.
    """
    try:
        when = parsedate_to_datetime(date)
    except (ValueError, TypeError, OverflowError, IndexError):  # the errors differ between Pythons
        return None
    return _epoch_seconds(when if when.tzinfo else when.replace(tzinfo=timezone.utc))


def _parse_fetch_time(dated: str) -> int | None:
    try:
        return _epoch_seconds(datetime.strptime(dated, _FETCHED).replace(tzinfo=timezone.utc))
    except ValueError:
        return None


def _epoch_seconds(when: datetime) -> int | None:
    """Return the seconds since 1970, or None for earlier times.

    No archive of Debian's is that old.
    """
    seconds = int(when.timestamp())
    return seconds if seconds > 0 else None
