"""Verification of a store: it hashes every blob, and removes damaged ones."""

from __future__ import annotations

import stat
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec import Struct

from reprobuild.infra.directory_fd import remove
from reprobuild.store.blob_hash import hash_open, is_still
from reprobuild.store.entries import UnreadFile, list_directory, require_store, stat_files
from reprobuild.store.roots import GcRoot, read_records, recorded_lock_path
from reprobuild.store.store import Store

WORKERS = 4


class Damaged(Struct, frozen=True, kw_only=True):
    """A blob that does not match its hash.

    It has the names in the locks. `aside` is its new path, empty if it was removed.
    """

    sha256: str
    size: int
    names: tuple[str, ...]
    aside: str = ""


class StoreCheck(Struct, frozen=True, kw_only=True):
    """The result of a check of every blob.

    `unreadable` are those with an unknown state, left in place.
    """

    files: int
    bytes: int
    damaged: tuple[Damaged, ...]
    unreadable: tuple[UnreadFile, ...] = ()


def check(store: Store, progress: Callable[[int, int], None] = lambda *_: None) -> StoreCheck:
    """Verify every blob; remove damaged ones for a new fetch.

    A blob without an address is moved to `damaged/` instead: some of it may be worth saving. A blob that cannot be read
    now may be intact, and stays.

    Args:
        progress: called with (bytes so far, bytes in all).

    Raises:
        UsageError: this is not a store.
        FetchError: a link is at the path of one of its directories.
    """
    require_store(store)
    store.refuse_links()
    blobs = [path for folder in list_directory(store.root / "blobs") for path in list_directory(folder)]
    sizes = [sum(facts.st_size for facts in stat_files(path)) for path in blobs]
    total, done, files = sum(sizes), 0, 0
    records = [record for _, record in read_records(store)]
    damaged, unreadable = [], []
    with ThreadPoolExecutor(WORKERS) as pool:
        for path, size, state in zip(blobs, sizes, pool.map(_state, blobs), strict=True):
            files += state is not None
            if state is False:
                damaged.append(_set_aside(path, store, records))
            elif isinstance(state, str):
                unreadable.append(UnreadFile(path=str(path), reason=state))
            done += size
            progress(done, total)
    return StoreCheck(files=files, bytes=total, damaged=tuple(damaged), unreadable=tuple(unreadable))


def _state(path: Path) -> bool | str | None:
    """Return whether a blob matches its hash.

    Return the reason if it cannot be read, and None if it was removed in the meantime.
    """
    try:
        facts = path.lstat()
        if not stat.S_ISREG(facts.st_mode):
            return False
        digest, facts = hash_open(path)
        while digest != path.name and not is_still(path, facts):  # another process replaced it
            digest, facts = hash_open(path)
    except FileNotFoundError:
        return None
    except OSError as err:
        return err.strerror or str(err)
    return digest == path.name


def _set_aside(path: Path, store: Store, records: Sequence[GcRoot]) -> Damaged:
    naming = [(record, record.files[path.name]) for record in records if path.name in record.files]
    names = tuple(f"{named.name} of {recorded_lock_path(record)}" for record, named in naming)
    size, aside = path.lstat().st_size, ""
    if any(named.here for _, named in naming) and not path.is_symlink():
        (store.root / "damaged").mkdir(exist_ok=True)
        aside = str(path.replace(store.root / "damaged" / path.name))
    else:
        remove(path)
    return Damaged(sha256=path.name, size=size, names=names, aside=aside)
