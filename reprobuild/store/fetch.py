"""Fetching of a lock's inputs into the store.

Every input is fetched by its sha256, in parallel, and verified. An interrupted fetch is resumed.
"""

from __future__ import annotations

import contextlib
import shutil
import stat
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from reprobuild.errors import FetchError
from reprobuild.infra.cancel import CancelToken
from reprobuild.infra.directory_fd import remove
from reprobuild.infra.flock import hold_file_lock, machine_name
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.model import PAGE, AccessDeniedError, WrongSizeError, split_credentials
from reprobuild.infra.progress import Progress, ignore_progress
from reprobuild.lock.model import Lock
from reprobuild.lock.python import PACKED_END
from reprobuild.lock.system import Artefact
from reprobuild.store.caches import Caches, copy_from_cache
from reprobuild.store.store import DamagedError, Store

WORKERS = 8
_SHOWN = 5  # files in one message
LONGEST_NAME = 40  # characters of a file's name on the line that moves
# The ways to the archive of a packed Python without the machine or the snapshot that has it.
PACKED_WAYS = (
    "capture the job again with `reprobuild capture --include interpreter`, and lock that snapshot; or bring the file "
    "in a bundle: `reprobuild bundle OUT -o frozen.tar --include wheels,debs` where OUT was built, and `reprobuild "
    "unbundle frozen.tar -o OUT` here; or name the store of then: --store DIR"
)
_SIGNED = "an index that signs its links must be asked again: make a new lock"
_CHANGED = "the publisher or a mirror changed it; find the locked file, or make a new lock"


def list_artefacts(lock: Lock) -> list[Artefact]:
    """Return every file that the lock names, each hash once."""
    named: list[Artefact] = []
    for base in (lock.base, lock.build_base):
        if base is not None:
            named += [deb.file for deb in (*base.packages, *base.tools)]
        if base is not None and base.image:
            named += [base.image.config, *(layer.file for layer in base.image.layers)]
    named += [lock.interpreter.file] if lock.interpreter.file else []
    named += [wheel.file for wheel in lock.wheels]
    named += [sdist.file for sdist in lock.sdists]
    named += [source.file for source in lock.sources]
    named += [package.file for package in lock.conda]
    return list({artefact.sha256: artefact for artefact in named}.values())


def list_image_files(lock: Lock) -> list[Artefact]:
    """Return the locked files of a sealed lock's image.

    Realised files are not among them.
    """
    wheels = [wheel.file for wheel in lock.wheels if wheel.role == "environment"]
    named = [*wheels, *(source.file for source in lock.sources)]
    return list({artefact.sha256: artefact for artefact in named}.values())


def fetch(
    files: Iterable[Artefact], store: Store, net: Net, progress: Progress = ignore_progress,
    *, caches: Caches | None = None,
) -> int:  # fmt: skip
    """Fetch the missing files, and verify the present ones.

    Args:
        files: the locked files.
        store: receives the files.
        net: the connection for downloads.
        caches: of the user, which are searched first.
        progress: shows the files and bytes so far.

    Returns:
        The number of files that were fetched.

    Raises:
        FetchError: the first file that is unavailable, or does not match its hash. Files that were complete by then are
            kept.
    """
    everything = list(files)
    if everything:
        store.make()
    for artefact in everything:
        store.blob(artefact.sha256)  # it is a hash, not a path
    halt, caches = CancelToken(), caches or Caches()
    _refuse_lost_files(everything, store, caches)
    with ThreadPoolExecutor(WORKERS) as pool:
        try:
            whole = pool.map(lambda artefact: _is_whole(artefact, store), everything)
            missing = [artefact for artefact, is_whole in zip(everything, whole, strict=True) if not is_whole]
            _refuse_full_disk(missing, store)
            tally = _Tally(missing, progress)
            downloads = [
                pool.submit(_fetch_file, artefact, store, net, caches, halt, tally) for artefact in missing
            ]
            for download in as_completed(downloads):
                download.result()
        except BaseException:
            halt.say()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return len(missing)


class FullDiskError(FetchError):
    """The missing files are larger than the free space of the store."""


def _refuse_full_disk(missing: Sequence[Artefact], store: Store) -> None:
    """Refuse files that do not fit on the disk of the store, before the first download.

    A lock or a registry can state any size.

    Raises:
        FullDiskError: the stated sizes are more than the free space.
    """
    if not missing:
        return
    needed, free = sum(artefact.size for artefact in missing), shutil.disk_usage(store.root).free
    if needed > free:
        raise FullDiskError(
            f"{len(missing)} missing files have {needed} bytes, and {free} are free for the store {store.root}",
            hint="remove unneeded files (`reprobuild store gc`), or name a store on another disk: --store DIR",
        )


class _Tally:
    """The files and bytes of a fetch so far; its threads share it."""

    def __init__(self, files: Sequence[Artefact], progress: Progress) -> None:
        self._count, self._total = len(files), sum(artefact.size for artefact in files)
        self._progress, self._guard = progress, threading.Lock()
        self._files, self._bytes = 0, dict.fromkeys((artefact.sha256 for artefact in files), 0)

    def add(self, artefact: Artefact, size: int) -> None:
        """Count bytes of a file that arrive."""
        with self._guard:
            self._bytes[artefact.sha256] += size
            self._show(artefact)

    def finish(self, artefact: Artefact, size: int) -> None:
        """Count a file of a size; bytes of an attempt that failed do not count."""
        with self._guard:
            self._files += 1
            self._bytes[artefact.sha256] = size
            self._show(artefact)

    def _show(self, artefact: Artefact) -> None:
        done = sum(self._bytes.values())
        detail = f"{self._files} of {self._count} files, {_shorten_name(artefact.filename)}"
        self._progress(min(done, self._total) if self._total else done, self._total, detail)


def _shorten_name(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 12]}...{name[-9:]}"


def _is_whole(artefact: Artefact, store: Store) -> bool:
    """Return whether the store has an undamaged file.

    A damaged one is removed, so that it is fetched again.
    """
    try:
        is_stored = store.has(artefact.sha256, artefact.size)
        return is_stored and bool(store.verified(artefact.sha256, artefact.filename))
    except DamagedError:
        return False


def _fetch_file(
    artefact: Artefact, store: Store, net: Net, caches: Caches, halt: CancelToken, tally: _Tally
) -> None:
    # One machine's: if locks reach no other machine, two machines must not write to one file.
    part = store.root / "partial" / f"{artefact.sha256}.{machine_name()}"
    with hold_file_lock(part.with_name(f"{part.name}.lock"), halt) as sure:
        for unfinished in (part, _copy_path(part)):
            _remove_unusable(unfinished, artefact.size)
        if _is_whole(artefact, store):  # another process fetched it in the meantime
            tally.finish(artefact, store.blob(artefact.sha256).stat().st_size)
            return
        if sure:
            tally.finish(artefact, _copy_or_download(artefact, part, store, net, caches, halt, tally))
            return
    with store.scratch() as folder:  # no locks here: unfinished files are not shared
        tally.finish(artefact, _copy_or_download(artefact, folder / "part", store, net, caches, halt, tally))


def _remove_unusable(path: Path, size: int) -> None:
    """Remove an unfinished file that cannot be continued.

    An untrusted store could have a link, a pipe, or terabytes there. `size` is that of the complete file, 0 if unknown.
    """
    with contextlib.suppress(FileNotFoundError):
        facts = path.lstat()
        if not stat.S_ISREG(facts.st_mode) or 0 < size < facts.st_size:
            remove(path)


def _refuse_lost_files(files: Iterable[Artefact], store: Store, caches: Caches) -> None:
    """Refuse files without an address that no store and no cache has, before any other file is fetched."""
    missing = [file for file in files if not file.url and not store.has(file.sha256, file.size)]
    if not missing:
        return
    with store.scratch() as folder:
        lost = [file for file in missing if not _copy_whole(file, folder / file.sha256, store, caches)]
    if lost:
        raise _lost_error(lost, store)


def _copy_whole(artefact: Artefact, copy: Path, store: Store, caches: Caches) -> bool:
    """Copy a file from a cache into the store; return whether a cache has it."""
    if not copy_from_cache(artefact, caches, copy):
        return False
    store.adopt(copy, artefact.sha256)
    return True


def _lost_error(lost: Sequence[Artefact], store: Store) -> FetchError:
    """Return the error of files without an address that are not in the store."""
    debs = [file for file in lost if file.filename.endswith(".deb")]
    packed = [file for file in lost if file.filename.endswith(PACKED_END)]
    built = [file for file in lost if file not in (*debs, *packed)]
    messages, hints = [], []
    if debs:
        messages.append(
            f"{_name_files(debs)} given with `--deb` when the lock was made, and {_absent(debs, store)}"
        )
        hints.append(
            f"lock again with {'that file' if len(debs) == 1 else 'those files'}, or use the store of then"
        )
    if packed:
        messages.append(f"{_name_files(packed)} packed when the lock was made, and {_absent(packed, store)}")
        hints.append(
            "run `reprobuild from-snapshot SNAPSHOT --lock LOCK -o OUT`: it takes the file from the snapshot, or packs "
            f"the same Python of this machine; without both, {PACKED_WAYS}"
        )
    if built:
        messages.append(f"{_name_files(built)} made when the lock was made, and {_absent(built, store)}")
        hints.append(
            "run `reprobuild from-snapshot` with the snapshot and its sources, which makes "
            f"{'it' if len(built) == 1 else 'them'} again; or name the store of then: --store DIR"
        )
    return FetchError("\n".join(messages), hint="\n".join(hints))


def _name_files(files: Sequence[Artefact]) -> str:
    names = ", ".join(f"{file.filename} ({describe_artefact(file)})" for file in files[:_SHOWN])
    more = f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
    return f"{names}{more} {'was' if len(files) == 1 else 'were'}"


def _absent(files: Sequence[Artefact], store: Store) -> str:
    return f"{'is' if len(files) == 1 else 'are'} not in the store {store.root}"


def describe_artefact(artefact: Artefact) -> str:
    """Return a file's hash and its size, as far as it is known."""
    return f"sha256 {artefact.sha256}" + (f", {artefact.size} bytes" if artefact.size else "")


def _copy_path(part: Path) -> Path:
    return part.with_name(f"{part.name}.copy")


def _copy_or_download(
    artefact: Artefact, part: Path, store: Store, net: Net, caches: Caches, halt: CancelToken, tally: _Tally
) -> int:
    # Beside an unfinished download, which is resumed if no cache has the file.
    copy = _copy_path(part)
    if copy_from_cache(artefact, caches, copy):
        store.adopt(copy, artefact.sha256)
        part.unlink(missing_ok=True)
        return store.blob(artefact.sha256).stat().st_size
    description = describe_artefact(artefact)
    if not artefact.url:
        raise _lost_error([artefact], store)
    url = split_credentials(artefact.url)[0]
    resumed = part.exists()
    try:
        digest = _download(artefact, part, net, halt, tally)
        if digest != artefact.sha256 and resumed:  # the partial file may be damaged: fetch all of it again
            part.unlink()
            digest = _download(artefact, part, net, halt, tally)
    except FetchError as err:
        hint = f"{err.hint}; {_SIGNED}" if isinstance(err, AccessDeniedError) else err.hint
        message = f"{artefact.filename} ({description}) cannot be fetched: {err}"
        raise type(err)(message, hint=hint) from None
    if digest != artefact.sha256:
        size = part.stat().st_size
        page = _is_page(part)
        part.unlink()
        raise FetchError(
            f"{artefact.filename} from {url} is not the file that was locked: sha256 {digest} "
            f"({size} bytes), locked as {description}",
            hint=PAGE if page else _CHANGED,
        )
    size = part.stat().st_size
    store.adopt(part, digest)
    return size


def _download(artefact: Artefact, part: Path, net: Net, halt: CancelToken, tally: _Tally) -> str:
    try:
        return net.download(
            artefact.url, part, size=artefact.size, halt=halt, progress=lambda size: tally.add(artefact, size),
            link=net.hidden.find_link(artefact.url, artefact.sha256),
        )  # fmt: skip
    except WrongSizeError:
        part.unlink(missing_ok=True)  # its bytes may be those of another file
        raise


def _is_page(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(512).lstrip().lower().startswith((b"<!doctype html", b"<html"))
