"""Garbage collection of a store: it removes the files that no lock needs."""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from reprobuild.errors import UsageError
from reprobuild.infra.directory_fd import remove
from reprobuild.infra.flock import machine_name
from reprobuild.infra.untrusted.regular_files import read_plain
from reprobuild.lock.file import read_lock
from reprobuild.store.entries import UnreadFile, list_directory, require_store, stat_files
from reprobuild.store.rootfs_key import root_key
from reprobuild.store.roots import (
    GcRoot,
    read_contents,
    read_records,
    record_lock,
    record_of,
    recorded_lock_path,
)
from reprobuild.store.signature import strip_signature
from reprobuild.store.store import LARGEST_MEMORY, Store

# Without locks in the file system, files written or used in this time are kept: it is longer than any build.
YOUNG = 3 * 24 * 3600.0
_HASH = re.compile(rb"[0-9a-f]{64}")
# The names of unfinished files, with the machine that owns them.
_WORK = re.compile(r"([0-9a-f]{12})\..+")
_PART = re.compile(r"[0-9a-f]{64}\.([0-9a-f]{12})(\.lock)?")


class Amount(Struct, frozen=True, kw_only=True):
    """Some files and their bytes.

    `freed` are the bytes without another name, as in an output directory.
    """

    files: int = 0
    bytes: int = 0
    freed: int = 0


class GcResult(Struct, frozen=True, kw_only=True):
    """The result of a garbage collection.

    It has the kept and removed amounts, and the locks. `gone` are the paths without a lock now.

    `unread` are paths of locks that cannot be read: their records were kept unchanged. `young` was not removed, though
    no lock needs it: this file system has no locks, and a process may be at work.
    """

    dry_run: bool
    locks: tuple[str, ...]
    gone: tuple[str, ...]
    kept: Amount
    removed: Amount
    young: Amount
    unread: tuple[UnreadFile, ...] = ()


class _Needs(Struct, frozen=True, kw_only=True):
    """The needs of some records: blobs, and keys of `made`.

    The blobs are also the names of directories in `roots`.
    """

    blobs: frozenset[str]
    made: frozenset[str]


def collect(
    store: Store, also: Sequence[Path] = (), *, dry_run: bool = False, empty: bool = False
) -> GcResult:
    """Remove all files that no lock needs.

    Args:
        also: lock files to keep, beside those that the store knows; they are recorded.
        dry_run: remove no file, and report what would be removed.
        empty: remove all of it if no lock is known.

    Raises:
        UsageError: this is not a store; or no lock is known, and `empty` is not set.
        FetchError: another process uses the store.
        LockError: one of `also` is not a lock.
    """
    locks = {path: read_lock(path) for path in also}
    require_store(store)
    if dry_run:
        extra = [record_of(lock, path, {}) for path, lock in locks.items()]
        return _collect(store, extra, sure=True, dry_run=True, empty=empty)
    with store.hold_exclusive_lock() as sure:
        for path, lock in locks.items():
            record_lock(lock, path, store)
        return _collect(store, [], sure=sure and not _has_other_machine(store), dry_run=False, empty=empty)


def _collect(store: Store, extra: Sequence[GcRoot], *, sure: bool, dry_run: bool, empty: bool) -> GcResult:
    known = [(place, record, read_contents(record)) for place, record in read_records(store)]
    orphans = [(place, str(recorded_lock_path(record))) for place, record, now in known if now.record is None]
    unread = [
        UnreadFile(path=str(recorded_lock_path(record)), reason=now.unread)
        for _, record, now in known
        if now.unread
    ]
    counting = [*extra, *(now.record for _, _, now in known if now.record is not None)]
    if not counting and not empty:
        raise UsageError(
            f"the store {store.root} knows of no lock that is still there, so nothing in it would be kept",
            hint="name the locks to keep: `reprobuild store gc LOCK...`; `--all` removes everything",
        )
    needs = _find_needs(counting, store)
    kept_paths, removed_paths, young_paths = [], [], []
    for path, needed in _list_removable(store, needs):
        if needed:
            kept_paths.append(path)
        elif sure or _age(path) > YOUNG:
            removed_paths.append(path)
        else:
            young_paths.append(path)
    amounts = _amount(kept_paths), _amount(removed_paths), _amount(young_paths)
    if not dry_run:
        for place, _ in orphans:
            place.unlink(missing_ok=True)
        for path in removed_paths:
            remove(path)
    return GcResult(
        dry_run=dry_run, locks=tuple(sorted({str(recorded_lock_path(record)) for record in counting})),
        gone=tuple(path for _, path in orphans), unread=tuple(unread),
        kept=amounts[0], removed=amounts[1], young=amounts[2],
    )  # fmt: skip


def _has_other_machine(store: Store) -> bool:
    """Return whether another machine may be at work here.

    Locks may not reach it.
    """
    unfinished = (
        *_list_own_entries(store.root / "tmp", _WORK),
        *_list_own_entries(store.root / "partial", _PART),
    )
    return any(owner != machine_name() and _age(path) < YOUNG for path, owner in unfinished)


def _list_own_entries(folder: Path, form: re.Pattern[str]) -> list[tuple[Path, str]]:
    """Return entries with names of our own form, each with its machine."""
    return [(path, match[1]) for path in list_directory(folder) if (match := form.fullmatch(path.name))]


def _find_needs(records: Sequence[GcRoot], store: Store) -> _Needs:
    """Return the blobs and keys that the records need.

    They are the files of the locks, those that runs used, and those that remembered results name.
    """
    blobs = {sha256 for record in records for sha256 in record.files}
    blobs |= {sha256 for record in records for used in record.runs.values() for sha256 in used.blobs}
    keys = {key for record in records for used in record.runs.values() for key in used.made}
    for key in keys:
        with contextlib.suppress(OSError):
            text = strip_signature(read_plain(store.root / "made" / key, LARGEST_MEMORY))
            blobs |= {digest.decode() for digest in _HASH.findall(text)}
    return _Needs(blobs=frozenset(blobs), made=frozenset(keys | {root_key(sha256) for sha256 in blobs}))


def _list_removable(store: Store, needs: _Needs) -> Iterator[tuple[Path, bool]]:
    """Yield each removable entry of the store, and whether it is needed.

    Directories of other programs are left alone.
    """
    for path, _ in _list_own_entries(store.root / "tmp", _WORK):
        yield path, False
    for path, _ in _list_own_entries(store.root / "partial", _PART):
        yield path, path.name.partition(".")[0] in needs.blobs
    for path in list_directory(store.root / "roots"):
        yield path, path.name.partition(".")[0] in needs.blobs
    for path in list_directory(store.root / "made"):
        yield path, path.name in needs.made
    for path in list_directory(store.root / "making"):  # of killed processes: no other process is here
        yield path, False
    for folder in list_directory(store.root / "blobs"):
        for path in list_directory(folder) if folder.is_dir() and not folder.is_symlink() else [folder]:
            yield path, path.name in needs.blobs


def _amount(paths: Sequence[Path]) -> Amount:
    files = size = freed = 0
    for path in paths:
        for facts in stat_files(path):
            files += 1
            size += facts.st_size
            freed += facts.st_size if facts.st_nlink == 1 else 0
    return Amount(files=files, bytes=size, freed=freed)


def _age(path: Path) -> float:
    try:
        facts = path.lstat()
    except FileNotFoundError:
        return math.inf
    return time.time() - max(facts.st_mtime, facts.st_ctime)
