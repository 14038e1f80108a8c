"""The files of a lock, fetched into the store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reprobuild.context import RunContext
from reprobuild.lock.model import Lock, SealedLock
from reprobuild.lock.system import Artefact
from reprobuild.realise.realise import is_realised
from reprobuild.resolve.interpreter.standalone import with_mirror_address
from reprobuild.store.fetch import fetch, list_artefacts, list_image_files
from reprobuild.store.roots import gc_root
from reprobuild.store.store import Store


def fetch_lock(lock: Lock, path: Path, context: RunContext) -> int:
    """Fetch and verify all files of a lock into the store.

    The store keeps them for the lock at `path`.

    Returns:
        The number of files that were missing.
    """
    with gc_root(lock, path, context.store, "fetch"):
        return _fetch_files(list_artefacts(lock), lock, context)


def fetch_inputs(lock: Lock, context: RunContext) -> None:
    """Fetch the files that the remaining steps of a build read.

    Each consumer verifies the files it reads.
    """
    _fetch_files(list_missing_inputs(lock, context.store), lock, context)


def list_missing_inputs(lock: Lock, store: Store) -> list[Artefact]:
    """Return the files that the remaining steps of a build read, and that the store lacks.

    The packages of a base that is already realised are not read again.
    """
    realised = isinstance(lock, SealedLock) and is_realised(lock, store)
    files = list_image_files(lock) if realised else list_artefacts(lock)
    return [file for file in files if not store.has(file.sha256, file.size)]


def _fetch_files(files: Sequence[Artefact], lock: Lock, context: RunContext) -> int:
    python = lock.interpreter.file
    if python is not None and python.url and not context.store.has(python.sha256, python.size):
        files = [with_mirror_address(lock, file, context.env) if file == python else file for file in files]
    missing = [artefact for artefact in files if not context.store.has(artefact.sha256, artefact.size)]
    if missing and not context.net.offline:  # asking pip for the credentials of its indexes takes a second
        context.indexes.read(context.env, context.net)
    if missing:
        context.say(f"fetching {len(missing)} files")
    fetch_count = fetch(files, context.store, context.net, context.progress, caches=context.caches)
    if fetch_count:
        context.say(f"fetched {fetch_count} files")
    return fetch_count
