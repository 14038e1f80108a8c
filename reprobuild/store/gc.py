"""What no lock needs goes out of a store, and what is damaged in it is found."""

from __future__ import annotations

import contextlib
import math
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec import Struct

from reprobuild.errors import UsageError
from reprobuild.infra.directory_fd import remove
from reprobuild.infra.flock import machine
from reprobuild.infra.untrusted.regular_files import read_plain
from reprobuild.lock.lock import read_lock
from reprobuild.store.rootfs_key import root_key
from reprobuild.store.roots import FOLDER, Kept, keep, kept_locks, place_of, present, record_of
from reprobuild.store.signature import unsigned
from reprobuild.store.store import LARGEST_MEMORY, Store, hash_open, is_still

# Where a file system has no locks, nothing is removed that was written or used since: longer than any build.
YOUNG = 3 * 24 * 3600.0
WORKERS = 4
_HASH = re.compile(rb"[0-9a-f]{64}")
# The names of what is unfinished, and in them the machine whose it is.
_WORK = re.compile(r"([0-9a-f]{12})\..+")
_PART = re.compile(r"[0-9a-f]{64}\.([0-9a-f]{12})(\.lock)?")


class Amount(Struct, frozen=True, kw_only=True):
    """Some files and their bytes; `freed` are those of which no other name is left, as in a folder of results."""

    files: int = 0
    bytes: int = 0
    freed: int = 0


class Unread(Struct, frozen=True, kw_only=True):
    """A lock that is there and cannot be read, and why; what was recorded of it is kept."""

    path: str
    reason: str


class Collected(Struct, frozen=True, kw_only=True):
    """What was kept and removed, for which locks; `gone` are the paths at which no lock is any more.

    `unread` are those at which something is that cannot be understood: their records were kept as they were.
    `young` was not removed, though no lock needs it: this file system has no locks, and a process may be at work.
    """

    dry_run: bool
    locks: tuple[str, ...]
    gone: tuple[str, ...]
    kept: Amount
    removed: Amount
    young: Amount
    unread: tuple[Unread, ...] = ()


class Damaged(Struct, frozen=True, kw_only=True):
    """A blob that is not what its name says: what the locks call it, and what became of it."""

    sha256: str
    size: int
    names: tuple[str, ...]
    aside: str = ""


class Checked(Struct, frozen=True, kw_only=True):
    """The result of a check of every blob; `unreadable` are those of which it is not known, left where they are."""

    files: int
    bytes: int
    damaged: tuple[Damaged, ...]
    unreadable: tuple[Unread, ...] = ()


class _Needs(Struct, frozen=True, kw_only=True):
    """What some records need: blobs (which are also the names of folders in `roots`), and keys of `made`."""

    blobs: frozenset[str]
    made: frozenset[str]


def collect(
    store: Store, also: Sequence[Path] = (), *, dry_run: bool = False, empty: bool = False
) -> Collected:
    """Remove what no lock needs.

    Args:
        also: lock files to keep, beside those that the store knows; they are recorded.
        dry_run: remove nothing, and tell what would be.
        empty: remove all of it if no lock is known.

    Raises:
        UsageError: this is no store; no lock is known, and `empty` was not said.
        FetchError: another process uses the store.
        LockError: one of `also` is no lock.
    """
    given = {path: read_lock(path) for path in also}
    _require(store)
    if dry_run:
        extra = [record_of(lock, path, {}) for path, lock in given.items()]
        return _collect(store, extra, sure=True, dry_run=True, empty=empty)
    with store.sole() as sure:
        for path, lock in given.items():
            keep(lock, path, store)
        return _collect(store, [], sure=sure and not _others(store), dry_run=False, empty=empty)


def _require(store: Store) -> None:
    """Refuse a folder that has no sign of a store: other folders have a `tmp`, too."""
    if not any((store.root / name).is_dir() for name in ("blobs", FOLDER)):
        raise UsageError(f"there is no store at {store.root}", hint="name another one with `--store`")


def _collect(store: Store, extra: Sequence[Kept], *, sure: bool, dry_run: bool, empty: bool) -> Collected:
    known = [(place, record, present(record)) for place, record in kept_locks(store)]
    gone = [(place, str(place_of(record))) for place, record, now in known if now.record is None]
    unread = [Unread(path=str(place_of(record)), reason=now.unread) for _, record, now in known if now.unread]
    counting = [*extra, *(now.record for _, _, now in known if now.record is not None)]
    if not counting and not empty:
        raise UsageError(
            f"the store {store.root} knows of no lock that is still there, so nothing in it would be kept",
            hint="name the locks to keep: `reprobuild store gc LOCK...`; `--all` removes everything",
        )
    needs = _needs(counting, store)
    kept, removed, young = [], [], []
    for path, needed in _everything(store, needs):
        if needed:
            kept.append(path)
        elif sure or _age(path) > YOUNG:
            removed.append(path)
        else:
            young.append(path)
    amounts = _amount(kept), _amount(removed), _amount(young)
    if not dry_run:
        for place, _ in gone:
            place.unlink(missing_ok=True)
        for path in removed:
            remove(path)
    return Collected(
        dry_run=dry_run, locks=tuple(sorted({str(place_of(record)) for record in counting})),
        gone=tuple(path for _, path in gone), unread=tuple(unread),
        kept=amounts[0], removed=amounts[1], young=amounts[2],
    )  # fmt: skip


def _others(store: Store) -> bool:
    """Tell whether another machine may be at work here, which locks may not reach."""
    unfinished = (*_named(store.root / "tmp", _WORK), *_named(store.root / "partial", _PART))
    return any(owner != machine() and _age(path) < YOUNG for path, owner in unfinished)


def _named(folder: Path, form: re.Pattern[str]) -> list[tuple[Path, str]]:
    """Return what is in a folder under names of our own form, each with its machine."""
    return [(path, match[1]) for path in _inside(folder) if (match := form.fullmatch(path.name))]


def _needs(records: Sequence[Kept], store: Store) -> _Needs:
    """Return what the records need: what their locks name, what their runs used, and what that speaks of."""
    blobs = {sha256 for record in records for sha256 in record.files}
    blobs |= {sha256 for record in records for used in record.runs.values() for sha256 in used.blobs}
    made = {key for record in records for used in record.runs.values() for key in used.made}
    for key in made:
        with contextlib.suppress(OSError):
            text = unsigned(read_plain(store.root / "made" / key, LARGEST_MEMORY))
            blobs |= {found.decode() for found in _HASH.findall(text)}
    return _Needs(blobs=frozenset(blobs), made=frozenset(made | {root_key(sha256) for sha256 in blobs}))


def _everything(store: Store, needs: _Needs) -> Iterator[tuple[Path, bool]]:
    """Yield everything in the store that may go, and whether it is needed. Folders of others are left alone."""
    for path, _ in _named(store.root / "tmp", _WORK):
        yield path, False
    for path, _ in _named(store.root / "partial", _PART):
        yield path, path.name.partition(".")[0] in needs.blobs
    for path in _inside(store.root / "roots"):
        yield path, path.name.partition(".")[0] in needs.blobs
    for path in _inside(store.root / "made"):
        yield path, path.name in needs.made
    for path in _inside(store.root / "making"):  # of processes that were killed: nobody else is here
        yield path, False
    for folder in _inside(store.root / "blobs"):
        for path in _inside(folder) if folder.is_dir() and not folder.is_symlink() else [folder]:
            yield path, path.name in needs.blobs


def _inside(folder: Path) -> list[Path]:
    with contextlib.suppress(FileNotFoundError):  # it went away meanwhile
        return sorted(folder.iterdir()) if folder.is_dir() and not folder.is_symlink() else []
    return []


def _amount(paths: Sequence[Path]) -> Amount:
    files = size = freed = 0
    for path in paths:
        for found in _files(path):
            files += 1
            size += found.st_size
            freed += found.st_size if found.st_nlink == 1 else 0
    return Amount(files=files, bytes=size, freed=freed)


def _files(path: Path) -> Iterator[os.stat_result]:
    """Yield what is there, or in the folder that is there, however deep; what went away meanwhile is left out."""
    with contextlib.suppress(FileNotFoundError):
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode):
            yield found
            return
    folders = [str(path)]
    while folders:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    elif entry.is_file(follow_symlinks=False):
                        yield entry.stat(follow_symlinks=False)


def _age(path: Path) -> float:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return math.inf
    return time.time() - max(found.st_mtime, found.st_ctime)


def check(store: Store, progress: Callable[[int, int], None] = lambda *_: None) -> Checked:
    """Verify every blob. A damaged one goes, so that the next fetch or build brings it again.

    What stands at no address is set aside in `damaged/` instead: some of it may be worth saving. What cannot be read
    now may be whole, and stays.

    Args:
        progress: called with (bytes so far, bytes in all).

    Raises:
        UsageError: this is no store.
    """
    _require(store)
    blobs = [path for folder in _inside(store.root / "blobs") for path in _inside(folder)]
    sizes = [sum(found.st_size for found in _files(path)) for path in blobs]
    total, done, files = sum(sizes), 0, 0
    records = [record for _, record in kept_locks(store)]
    damaged, unreadable = [], []
    with ThreadPoolExecutor(WORKERS) as pool:
        for path, size, state in zip(blobs, sizes, pool.map(_state, blobs), strict=True):
            files += state is not None
            if state is False:
                damaged.append(_set_aside(path, store, records))
            elif isinstance(state, str):
                unreadable.append(Unread(path=str(path), reason=state))
            done += size
            progress(done, total)
    return Checked(files=files, bytes=total, damaged=tuple(damaged), unreadable=tuple(unreadable))


def _state(path: Path) -> bool | str | None:
    """Tell whether a blob is what its name says; why it cannot be read; nothing where it went away meanwhile."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return False
        found, seen = hash_open(path)
        while found != path.name and not is_still(path, seen):  # another process replaced it
            found, seen = hash_open(path)
    except FileNotFoundError:
        return None
    except OSError as err:
        return err.strerror or str(err)
    return found == path.name


def _set_aside(path: Path, store: Store, records: Sequence[Kept]) -> Damaged:
    naming = [(record, record.files[path.name]) for record in records if path.name in record.files]
    names = tuple(f"{named.name} of {place_of(record)}" for record, named in naming)
    size, aside = path.lstat().st_size, ""
    if any(named.here for _, named in naming) and not path.is_symlink():
        (store.root / "damaged").mkdir(exist_ok=True)
        aside = str(path.replace(store.root / "damaged" / path.name))
    else:
        remove(path)
    return Damaged(sha256=path.name, size=size, names=names, aside=aside)
