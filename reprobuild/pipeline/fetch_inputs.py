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


def fetch_lock(lock: Lock, path: Path, session: RunContext) -> int:
    """Fetch and verify all files of a lock into the store.

    The store keeps them for the lock at `path`.

    Returns:
        The number of files that were missing.
    """
    with gc_root(lock, path, session.store, "fetch"):
        return _fetch_files(list_artefacts(lock), lock, session)


def fetch_inputs(lock: Lock, session: RunContext) -> None:
    """Fetch the files that the remaining steps of a build read.

    Each consumer verifies the files it reads. The packages of a base that is already realised are not read again.
    """
    if isinstance(lock, SealedLock) and is_realised(lock, session.store):
        files = list_image_files(lock)
    else:
        files = list_artefacts(lock)
    _fetch_files([file for file in files if not session.store.has(file.sha256)], lock, session)


def _fetch_files(files: Sequence[Artefact], lock: Lock, session: RunContext) -> int:
    python = lock.interpreter.file
    if python is not None and python.url and not session.store.has(python.sha256):
        files = [with_mirror_address(lock, file, session.env) if file == python else file for file in files]
    missing = [artefact for artefact in files if not session.store.has(artefact.sha256)]
    if missing and not session.net.offline:  # asking pip for the credentials of its indexes takes a second
        session.indexes.read(session.env, session.net)
    fetch_count = fetch(files, session.store, session.net, session.progress, caches=session.caches)
    if fetch_count:
        session.say(f"fetched {fetch_count} files")
    return fetch_count
