"""Recovery of locked files from an output directory.

Its context has all files of the image.

The directory is untrusted: each file is copied while its hash is computed, and kept only if the lock has that hash. No
link in the directory is followed: it could lead to any file of the caller. A file is read only if it can be one that is
missing: it has the size that the lock states, if it states one, and it is not mostly a hole.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
from collections.abc import Collection
from pathlib import Path
from typing import IO

from reprobuild.errors import BuildError
from reprobuild.infra.tar.entries import CHUNK
from reprobuild.infra.tar.reading import read_tar
from reprobuild.infra.tar.writing import TarWriter
from reprobuild.infra.untrusted import tars
from reprobuild.infra.untrusted.names import RATIO
from reprobuild.infra.untrusted.regular_files import open_within
from reprobuild.lock.model import Lock, SealedLock
from reprobuild.lock.system import EPOCH, FILES
from reprobuild.store.fetch import list_artefacts
from reprobuild.store.roots import list_lock_files
from reprobuild.store.store import Store

CONTEXT = "context"
_RUNTIME = f"{FILES[1:]}/lib/reprobuild_runtime/"
_PAYLOAD = "payload.tar"
_DEEPEST = 32  # of nested directories; ours are three, and more than the stack holds would end the program
_LARGEST = 64 << 20  # of our own files, which are read into memory
_MOST_PAYLOADS = 4  # each takes some seconds; a context has one


def take_context(out: Path, lock: Lock, store: Store) -> int:
    """Copy a lock's missing files from an output directory's context.

    They are copied into the store.

    A file that does not match its hash is skipped: its consumer reports it as missing.

    Returns:
        The number of files that were taken.
    """
    missing = {sha256 for sha256 in list_lock_files(lock) if not store.has(sha256)}
    sizes = _find_sizes(lock, missing)
    identities: set[tuple[int, int]] = set()
    taken = payloads = 0
    top = str(out).count("/")
    for folder, folders, names in os.walk(out / CONTEXT):
        folders[:] = () if folder.count("/") - top > _DEEPEST else sorted(folders)
        for name in sorted(names):
            if not missing:
                return taken
            path = Path(folder, name).relative_to(out).as_posix()
            if name == _PAYLOAD:
                payloads += 1
                digest = _runtime(out, path, missing, store) if payloads <= _MOST_PAYLOADS else ""
            else:
                digest = _store_missing(out, path, missing, sizes, identities, store)
            missing.discard(digest)
            taken += bool(digest)
    return taken


def take_runtime(out: Path, lock: Lock, store: Store) -> bool:
    """Recover a lock's runtime package from the context.

    Return whether the store has it now.
    """
    if not isinstance(lock, SealedLock):
        return False
    runtime = lock.realised.runtime
    places = [] if store.has(runtime) else sorted((out / CONTEXT).glob(f"*/{_PAYLOAD}"))[:_MOST_PAYLOADS]
    paths = (place.relative_to(out).as_posix() for place in places)
    return store.has(runtime) or any(_runtime(out, path, (runtime,), store) for path in paths)


def _find_sizes(lock: Lock, missing: Collection[str]) -> frozenset[int]:
    """Return the sizes of missing files; 0 is among them if a lock does not state one."""
    stated = {file.sha256: file.size for file in list_artefacts(lock)}
    stated |= {wheel.file.sha256: wheel.file.size for wheel in lock.built_wheels}
    return frozenset(stated.get(sha256, 0) for sha256 in missing)


def _store_missing(
    out: Path,
    path: str,
    missing: Collection[str],
    sizes: Collection[int],
    identities: set[tuple[int, int]],
    store: Store,
) -> str:
    """Return the sha256 of a file newly added to the store.

    It is empty if the file was not missing. `identities` has the device and the inode of each file that was read: a
    file of many names is read once.
    """
    try:
        source, size = open_within(out, path)
    except OSError:
        return ""
    with source:
        facts = os.fstat(source.fileno())
        known = (facts.st_dev, facts.st_ino)
        if known in identities or not (0 in sizes or size in sizes) or _is_hole(source, size):
            return ""
        identities.add(known)
        if _copy(source, None, size) not in missing:
            return ""
        source.seek(0)
        with store.open_scratch() as scratch, scratch.open_new("taken") as target:
            digest = _copy(source, target, size)
            if digest not in missing:  # changed since the first reading
                return ""
            store.adopt_new(scratch, "taken", target, digest)
            return digest


def _is_hole(source: IO[bytes], size: int) -> bool:
    """Return whether a file is mostly holes: to read them takes days, and our files have none.

    A file system that does not know holes states one piece of data (lseek(2)).
    """
    number, place, data = source.fileno(), 0, 0
    with contextlib.suppress(OSError):  # ENXIO: no data follows
        while data * RATIO < size:
            begin = os.lseek(number, place, os.SEEK_DATA)
            place = os.lseek(number, begin, os.SEEK_HOLE)
            data += place - begin
    source.seek(0)
    return data * RATIO < size


def _copy(source: IO[bytes], target: IO[bytes] | None, size: int) -> str:
    digest = hashlib.sha256()
    while size > 0 and (chunk := source.read(min(CHUNK, size))):
        size -= len(chunk)
        digest.update(chunk)
        if target:
            target.write(chunk)
    return digest.hexdigest()


def _runtime(out: Path, path: str, missing: Collection[str], store: Store) -> str:
    """Return the sha256 of the runtime package in an image's payload.

    It is packed again in the way of realising.
    """
    packed = io.BytesIO()
    writer = TarWriter(packed, EPOCH)
    files: dict[str, bytes] = {}
    try:
        source, size = open_within(out, path)
        with source:
            for entry, content in read_tar(source) if size <= _LARGEST else ():
                if entry.path.startswith(_RUNTIME) and entry.type == "file":
                    files[entry.path.removeprefix(_RUNTIME)] = content()
    except (OSError, BuildError, *tars.UNREADABLE):
        return ""
    for name, data in sorted(files.items()):
        writer.file(name, data)
    writer.close()
    digest = hashlib.sha256(packed.getvalue()).hexdigest()
    return store.add(packed.getvalue()) if digest in missing else ""
