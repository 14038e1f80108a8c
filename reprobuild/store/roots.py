"""Records of the locks that a store must keep.

A lock file that was written, fetched or built is recorded by its path, as Nix records indirect roots: it counts as long
as a lock is there. The same run will ask for the same files again, so the files that a run used are kept, too. The
records are not signed, and a run that failed has one: they keep files from removal, and do not vouch for an image.
Separately, and signed, the store remembers the locks that were made from a snapshot here: see `remember_lock`.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from reprobuild.errors import FetchError, LockError
from reprobuild.infra.cancel import CancelToken
from reprobuild.infra.flock import hold_file_lock
from reprobuild.infra.untrusted.decode import decode_json
from reprobuild.infra.untrusted.regular_files import read_plain
from reprobuild.infra.untrusted.strings import EncodedPath, Line, Sha256
from reprobuild.lock.file import read_lock
from reprobuild.lock.model import Lock, SealedLock
from reprobuild.store.fetch import list_artefacts
from reprobuild.store.store import LARGEST_MEMORY, Store, Used

FOLDER = "kept"
BUILD = "build by "  # begins the name of a run that is to make an image; the builder follows


class NamedFile(Struct, frozen=True, kw_only=True):
    """A file that a lock names.

    One that is made `here` has no address.
    """

    name: Line
    here: bool = False


class GcRoot(Struct, frozen=True, kw_only=True):
    """The record of a lock file.

    It has the path, the lock's digest, its files, and the files that its runs used.

    The path is quoted as in an address: it may hold bytes that JSON cannot.
    """

    path: EncodedPath
    digest: Sha256
    files: dict[Sha256, NamedFile]
    runs: dict[Line, Used]


class RootContents(Struct, frozen=True, kw_only=True):
    """The current state of a record, if any.

    `unread` is the reason if the lock cannot be read.
    """

    record: GcRoot | None = None
    unread: str = ""


def remember_lock(lock: Lock, store: Store) -> None:
    """Record in a store that a lock was made here.

    It was made of its snapshot here, or sealed from such a lock.

    If the store cannot be written to, the lock counts as untrusted.
    """
    if not is_lock_of_here(lock, store):
        with contextlib.suppress(OSError):
            store.remember(_lock_key(lock), True)


def is_lock_of_here(lock: Lock, store: Store) -> bool:
    """Return whether this store remembers making a lock here.

    The record is signed: an untrusted store or directory cannot supply it.
    """
    return store.recall(_lock_key(lock)) is True


def _lock_key(lock: Lock) -> str:
    return hashlib.sha256(f"lock made of a snapshot, 1 {lock.digest}".encode()).hexdigest()


def list_lock_files(lock: Lock) -> dict[str, NamedFile]:
    """Return every file that a lock names, by its sha256."""
    files = {item.sha256: NamedFile(name=item.filename, here=not item.url) for item in list_artefacts(lock)}
    if not isinstance(lock, SealedLock):
        return files
    outputs = lock.realised
    names = {wheel.file.sha256: wheel.name for wheel in (*lock.wheels, *outputs.wheels)}
    files |= {
        outputs.base: NamedFile(name="the tree of the base"),
        outputs.runtime: NamedFile(name="the runtime package"),
    }
    files |= (
        {outputs.interpreter: NamedFile(name="the tree of the interpreter")} if outputs.interpreter else {}
    )
    files |= {wheel.file.sha256: NamedFile(name=wheel.file.filename) for wheel in outputs.wheels}
    files |= {
        build.parts: NamedFile(name=f"what is compiled in {build.name}")
        for build in outputs.builds
        if build.parts
    }
    bytecode = {code.tar: names.get(code.artefact, code.artefact) for code in outputs.bytecode}
    return files | {tar: NamedFile(name=f"the bytecode of {name}") for tar, name in bytecode.items()}


def record_of(lock: Lock, path: Path, runs: Mapping[str, Used]) -> GcRoot:
    """Return the record of the lock at a path, with known runs."""
    written = urllib.parse.quote_from_bytes(os.fsencode(path.absolute()))
    return GcRoot(path=written, digest=lock.digest, files=list_lock_files(lock), runs=dict(runs))


def record_lock(lock: Lock, path: Path, store: Store, run: str = "", *, whole: bool = True) -> None:
    """Record the lock file at `path`, and the files used so far.

    The used files are recorded under the name `run`.

    Files used in a run that is not `whole` are added to those of the last run, which are still needed. If the store
    cannot be written to, garbage collection does not know of this lock.
    """
    place = _record_path(path, store)
    try:
        store.make()
        with hold_file_lock(place.with_suffix(".lock"), CancelToken()):
            former = _read_record(place)
            same = former is not None and former.digest == lock.digest
            runs: Mapping[str, Used] = former.runs if former is not None and same else {}
            used = (
                {run: store.used if whole else _merge_used(runs.get(run, Used()), store.used)} if run else {}
            )
            new = record_of(lock, path, {**runs, **used})
            if new != former:
                store.keep_file(place, msgspec.json.encode(new, order="deterministic"))
    except OSError as err:
        if err.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise


@contextlib.contextmanager
def gc_root(lock: Lock, path: Path, store: Store, run: str) -> Iterator[None]:
    """Record a lock file, and finally the files that the block used.

    They are recorded on failure, too.

    If the block wrote another lock to the same path, that lock's record stays.
    """
    record_lock(lock, path, store)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # the disk may be full: the original error is reported
            _record_run(lock, path, store, run, whole=False)
        raise
    _record_run(lock, path, store, run, whole=True)


def _record_run(lock: Lock, path: Path, store: Store, run: str, *, whole: bool) -> None:
    former = _read_record(_record_path(path, store))
    if former is None or former.digest == lock.digest:
        record_lock(lock, path, store, run, whole=whole)


def _merge_used(first: Used, second: Used) -> Used:
    blobs, keys = {*first.blobs, *second.blobs}, {*first.made, *second.made}
    return Used(blobs=tuple(sorted(blobs)), made=tuple(sorted(keys)))


def _record_path(path: Path, store: Store) -> Path:
    return store.root / FOLDER / hashlib.sha256(os.fsencode(path.absolute())).hexdigest()


def read_records(store: Store) -> list[tuple[Path, GcRoot]]:
    """Return every record with its path, sorted by the lock's path.

    Raises:
        FetchError: a record is damaged.
    """
    folder = store.root / FOLDER
    pairs = []
    for place in folder.iterdir() if folder.is_dir() else ():
        if place.suffix:  # the lock of a process that writes one
            continue
        record = _read_record(place)
        if record is None:
            raise FetchError(
                f"{place} says which lock is kept, and cannot be read",
                hint="remove it, and name its lock with `reprobuild store gc LOCK`",
            )
        pairs.append((place, record))
    return sorted(pairs, key=lambda pair: pair[1].path)


def read_contents(record: GcRoot) -> RootContents:
    """Return a record's current state; empty if its file is missing.

    If another lock is at the same path, that lock's files count. A file that cannot be read or understood (a lock of
    another version, half edited, on a disk that fails) counts as before: some of its files may have no address.
    """
    path = recorded_lock_path(record)
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):
            return RootContents()
        if not facts.st_size:  # perhaps of the kernel: a read of /proc/kmsg waits, or takes messages
            return RootContents(record=record, unread="is not a lock: it is empty")
        lock = read_lock(path)
    except OSError as err:
        is_missing = err.errno in (errno.ENOENT, errno.ENOTDIR)
        return RootContents() if is_missing else RootContents(record=record, unread=err.strerror or str(err))
    except LockError as err:
        return RootContents(record=record, unread=str(err).removeprefix(f"{path} "))
    except (ValueError, RecursionError) as err:  # broken text, or nested too deeply for the parser
        return RootContents(record=record, unread=str(err))
    runs = record.runs if lock.digest == record.digest else {}
    return RootContents(
        record=GcRoot(path=record.path, digest=lock.digest, files=list_lock_files(lock), runs=runs)
    )


def recorded_lock_path(record: GcRoot) -> Path:
    """Return the path of a record's lock."""
    return Path(os.fsdecode(urllib.parse.unquote_to_bytes(record.path)))


def _read_record(place: Path) -> GcRoot | None:
    try:
        return decode_json(read_plain(place, LARGEST_MEMORY), GcRoot)
    except (OSError, msgspec.MsgspecError, UnicodeError):
        return None
