"""Lock to store: every input by its sha256, in parallel, verified, going on where it stopped."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from reprobuild.errors import FetchError
from reprobuild.lock import Artefact, Lock
from reprobuild.net import Net
from reprobuild.store import Store

WORKERS = 8


def artefacts(lock: Lock) -> list[Artefact]:
    """Return every file that the lock names, each hash once."""
    named = [deb.file for deb in (*lock.base.packages, *lock.base.tools)]
    if lock.base.image:
        named += [lock.base.image.config, *(layer.file for layer in lock.base.image.layers)]
    named += [wheel.file for wheel in lock.wheels]
    named += [source.file for source in lock.sources]
    return list({artefact.sha256: artefact for artefact in named}.values())


def fetch(
    wanted: Iterable[Artefact], store: Store, net: Net, progress: Callable[[int, int], None] = lambda *_: None
) -> int:
    """Bring every file that the store does not have, and verify every one that it has.

    Args:
        wanted: the files.
        store: where they go.
        net: how they come.
        progress: called with (bytes so far, bytes to fetch, 0 where unknown).

    Returns:
        The number of files that were brought.

    Raises:
        FetchError: the first file that cannot be had, or is not the one that was locked. Whatever was
            complete by then is kept.
    """
    everything = list(wanted)
    missing = [artefact for artefact in everything if not store.has(artefact.sha256)]
    with ThreadPoolExecutor(WORKERS) as pool:
        present = (artefact for artefact in everything if store.has(artefact.sha256))
        for check in [pool.submit(store.verified, a.sha256, a.filename) for a in present]:
            check.result()
        total, done = sum(artefact.size for artefact in missing), 0
        downloads = [pool.submit(_bring, artefact, store, net) for artefact in missing]
        try:
            for download in as_completed(downloads):
                done += download.result()
                progress(done, total)
        except BaseException:
            for download in downloads:
                download.cancel()
            raise
    return len(missing)


def _bring(artefact: Artefact, store: Store, net: Net) -> int:
    if not artefact.url:
        raise FetchError(
            f"{artefact.filename} was made when the lock was made, and is not in the store {store.root}",
            hint="run `reprobuild from-snapshot` with the snapshot and its sources, which makes it again",
        )
    part = store.root / "partial" / artefact.sha256
    with _alone(part):
        if store.has(artefact.sha256):  # another process brought it in the meantime
            return store.verified(artefact.sha256, artefact.filename).stat().st_size
        size = _complete(artefact, part, store, net)
        _lock_file(part).unlink(missing_ok=True)  # whoever waits for it finds the file in the store
        return size


def _lock_file(part: Path) -> Path:
    return part.with_name(f"{part.name}.lock")


@contextlib.contextmanager
def _alone(part: Path) -> Iterator[None]:
    """Wait until no other process writes to the same unfinished file."""
    part.parent.mkdir(parents=True, exist_ok=True)
    with _lock_file(part).open("ab") as stream:
        with contextlib.suppress(OSError):  # some network file systems have no locks
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _complete(artefact: Artefact, part: Path, store: Store, net: Net) -> int:
    resumed = part.exists()
    found = net.download(artefact.url, part)
    if found != artefact.sha256 and resumed:  # what was left behind may be damaged: all of it again
        part.unlink()
        found = net.download(artefact.url, part)
    if found != artefact.sha256:
        size = part.stat().st_size
        part.unlink()
        raise FetchError(
            f"{artefact.filename} from {artefact.url} is not the file that was locked: sha256 {found} "
            f"({size} bytes), locked as {artefact.sha256}",
            hint="the publisher or a mirror changed it; find the locked file, or make a new lock",
        )
    size = part.stat().st_size
    store.adopt(part, found)
    return size
