"""A cache of index pages, as servers allow.

A lock that is made again fetches none of them. A page fetched with a login is never kept (`http` knows how
long a page is fresh), nor is a list whose links may hold a secret. All of it is one value of the store, with
only the fresh entries.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from reprobuild.infra.http.model import split_credentials
from reprobuild.infra.http.redaction import redact_address
from reprobuild.infra.untrusted.decode import decode_value
from reprobuild.infra.untrusted.strings import FileName, Hex, Href, Key, Line, OptionalSha256, Text, Word
from reprobuild.store.store import Store

_KEY = hashlib.sha256(b"pages of indexes, 3").hexdigest()


class ListedFile(Struct, frozen=True, kw_only=True):
    """A file in an index's list.

    `hashes` are by algorithm; `yanked` is None, or the reason (may be empty). `uploaded` is the time of its upload, if
    the index publishes it (https://packaging.python.org/specifications/simple-repository-api/, 1.1). `core_metadata` is
    None if the index publishes no metadata file of it, else the sha256 of that file (empty: not stated).
    """

    filename: FileName
    url: Href
    hashes: dict[Word, Hex] = {}
    size: int = 0
    requires_python: Line | None = None
    yanked: Text | None = None
    uploaded: Line | None = None
    core_metadata: OptionalSha256 | None = None


class CachedPage(Struct, frozen=True, kw_only=True):
    """The files of a page whose names contain some text.

    They are valid until a time in seconds since 1970. `some` is true if the page has any files at all.
    """

    until: int
    some: bool
    files: tuple[ListedFile, ...]


def _may_hold_secret(url: str) -> bool:
    return "?" in url or redact_address(url) != url or split_credentials(url)[1] is not None


class PageMemory:
    """A thread-safe memory of pages, by address and search text.

    Args:
        store: keeps it.
        now: in seconds since 1970.
    """

    def __init__(self, store: Store, now: int) -> None:
        self._store, self._now = store, now
        self._guard = threading.Lock()
        self._known: dict[str, CachedPage] | None = None
        self._new = False

    def get(self, url: str, needle: str) -> CachedPage | None:
        """Return the fresh record of a page, or None."""
        with self._guard:
            return self._all().get(f"{url} {needle}")

    def put(self, url: str, needle: str, fresh: int, files: Sequence[ListedFile], *, some: bool) -> None:
        """Keep a page's files for a number of seconds.

        A page whose links hold a login, a token or a query is not kept.
        """
        if fresh <= 0 or any(_may_hold_secret(file.url) for file in files):
            return
        with self._guard:
            page = CachedPage(until=self._now + fresh, some=some, files=tuple(files))
            self._all()[f"{url} {needle}"], self._new = page, True

    def save(self) -> None:
        """Write new records to the store."""
        with self._guard:
            if self._new:
                self._store.remember(_KEY, msgspec.to_builtins(self._all()))
                self._new = False

    def _all(self) -> dict[str, CachedPage]:
        if self._known is None:
            try:
                read = decode_value(self._store.recall(_KEY) or {}, dict[Key, CachedPage])
            except msgspec.ValidationError:  # of another version, or damaged
                read = {}
            self._known = {key: page for key, page in read.items() if page.until > self._now}
        return self._known
