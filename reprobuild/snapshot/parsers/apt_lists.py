"""Parser of the package lists that apt had on the captured machine.

They are evidence of the time and the archives of its last update.

`reprobuild capture` writes them into the `dpkg` part of `capture.json`: for each Release file below /var/lib/apt/lists
its name (the address, with `_` for `/`), the time of fetching, and its own fields.
"""

from __future__ import annotations

from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from reprobuild.infra.display import display_text, escape_text
from reprobuild.snapshot import text
from reprobuild.snapshot.model import AptList
from reprobuild.snapshot.parsers.capture_json import DAMAGED

_Field = Annotated[str, Meta(max_length=4096)]  # the capture reads that much of a Release file
_FETCHED = "%Y-%m-%dT%H:%M:%SZ"


class _List(Struct, frozen=True):
    file: _Field
    dated: _Field = ""
    date: _Field = ""
    origin: _Field = ""
    suite: _Field = ""
    codename: _Field = ""


class _Dpkg(Struct, frozen=True):
    lists: Annotated[tuple[_List, ...], Meta(max_length=10_000)] = ()


class _Document(Struct, frozen=True):
    dpkg: _Dpkg | None = None  # None if the machine has no dpkg, or that part failed


def parse(data: bytes, file: str = "capture.json") -> tuple[AptList, ...]:
    """Return apt's lists in a `capture.json`, in its order.

    A time that cannot be read is None.

    Raises:
        SnapshotError: it is damaged. Earlier readers check its version (`captured.parse`).
    """
    try:
        dpkg = msgspec.json.decode(data, type=_Document).dpkg
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as err:  # nested brackets; broken UTF-8
        raise text.parse_error(file, escape_text(str(err)), DAMAGED) from None
    return tuple(
        AptList(
            file=display_text(apt_list.file),
            date=_parse_release_date(apt_list.date),
            fetched=_parse_fetch_time(apt_list.dated),
            origin=display_text(apt_list.origin),
            suite=display_text(apt_list.suite),
            codename=display_text(apt_list.codename),
        )
        for apt_list in (dpkg.lists if dpkg else ())
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
