"""Recovery of locked files from an output directory.

Its context has all files of the image.

The directory is untrusted: each file is copied while its hash is computed, and kept only if the lock has that hash. No
link in the directory is followed: it could lead to any file of the caller.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Collection
from pathlib import Path
from typing import IO

from reprobuild.errors import BuildError
from reprobuild.infra.atomic import add_path_to_errors
from reprobuild.infra.tar.entries import CHUNK
from reprobuild.infra.tar.reading import read_tar
from reprobuild.infra.tar.writing import TarWriter
from reprobuild.infra.untrusted import tars
from reprobuild.infra.untrusted.regular_files import open_within
from reprobuild.lock.model import Lock, SealedLock
from reprobuild.lock.system import EPOCH, FILES
from reprobuild.store.roots import list_lock_files
from reprobuild.store.store import Store

CONTEXT = "context"
_RUNTIME = f"{FILES[1:]}/lib/reprobuild_runtime/"
_PAYLOAD = "payload.tar"
_DEEPEST = 32  # of nested directories; ours are three, and more than the stack holds would end the program
_LARGEST = 64 << 20  # of our own files, which are read into memory


def take_context(out: Path, lock: Lock, store: Store) -> int:
    """Copy a lock's missing files from an output directory's context.

    They are copied into the store.

    A file that does not match its hash is skipped: its consumer reports it as missing.

    Returns:
        The number of files that were taken.
    """
    missing = {sha256 for sha256 in list_lock_files(lock) if not store.has(sha256)}
    taken = 0
    top = str(out).count("/")
    for folder, folders, names in os.walk(out / CONTEXT):
        folders[:] = () if folder.count("/") - top > _DEEPEST else sorted(folders)
        for name in sorted(names):
            if not missing:
                return taken
            path = Path(folder, name).relative_to(out).as_posix()
            take = _runtime if name == _PAYLOAD else _store_missing
            digest = take(out, path, missing, store)
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
    places = () if store.has(runtime) else sorted((out / CONTEXT).glob(f"*/{_PAYLOAD}"))
    paths = (place.relative_to(out).as_posix() for place in places)
    return store.has(runtime) or any(_runtime(out, path, (runtime,), store) for path in paths)


def _store_missing(out: Path, path: str, missing: Collection[str], store: Store) -> str:
    """Return the sha256 of a file newly added to the store.

    It is empty if the file was not missing.
    """
    try:
        source, _ = open_within(out, path)
    except OSError:
        return ""
    with source:
        if _copy(source, None) not in missing:
            return ""
        source.seek(0)
        with store.scratch() as folder:
            part = folder / "taken"
            with add_path_to_errors(part), part.open("wb") as target:
                digest = _copy(source, target)
            return store.adopt(part, digest) if digest in missing else ""  # changed since the first reading


def _copy(source: IO[bytes], target: IO[bytes] | None) -> str:
    digest = hashlib.sha256()
    while chunk := source.read(CHUNK):
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
