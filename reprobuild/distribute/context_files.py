"""The context of an output directory, for a bundle.

The directory may be untrusted, and a link in it could lead to any file of the caller. So links are not
followed, and files that the lock does not name are left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from reprobuild.errors import DistributionError
from reprobuild.infra.untrusted.regular_files import open_within
from reprobuild.lock.model import Lock, SealedLock
from reprobuild.recipe.build_context import OWN, context_blobs
from reprobuild.recipe.render import own_directory
from reprobuild.store.salvage import CONTEXT
from reprobuild.store.store import Store
from reprobuild_portable.hashing import hash_stream

_LARGEST = 64 << 20  # of a file that this program makes for a context
_AGAIN = "build it again with `reprobuild build OUT/reprobuild.lock -o OUT`"


def context_files(out: Path, lock: Lock, store: Store) -> Iterator[tuple[str, bytes | Path, str]]:
    """Yield path, content and sha256 of a context's files.

    These are the files that the lock names, and those that this program makes for it, without a sha256 in the
    lock.

    Args:
        out: the output directory.
        lock: of it.
        store: a file that is a hard link to one of its files is not hashed here.

    Raises:
        DistributionError: a file is missing, damaged or too large, or a link leads to it.
    """
    if not isinstance(lock, SealedLock):
        raise DistributionError(f"the lock of {out} is not sealed: no context follows from it", hint=_AGAIN)
    hashes = context_blobs(lock) | {f"{own_directory(lock)}/{name}": "" for name in OWN}
    for name, sha256 in sorted(hashes.items(), key=lambda item: item[0].split("/")):
        path = f"{CONTEXT}/{name}"
        try:
            stream, _ = open_within(out, path)
        except OSError:
            raise DistributionError(f"{out / path} is missing, or a link leads to it", hint=_AGAIN) from None
        with stream:
            if not sha256:
                yield path, _read_bounded(stream, out / path), ""
                continue
            if not _is_blob(stream, sha256, store):
                raise DistributionError(
                    f"{out / path} is damaged: the lock names the sha256 {sha256}", hint=_AGAIN
                )
        yield path, out / path, sha256


def _read_bounded(stream: IO[bytes], path: Path) -> bytes:
    content = stream.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise DistributionError(f"{path} has more than {_LARGEST >> 20} MB", hint=_AGAIN)
    return content


def _is_blob(stream: IO[bytes], sha256: str, store: Store) -> bool:
    """Return whether an open file has a sha256.

    A hard link to a file of the store is hashed only when it is packed.
    """
    if store.has(sha256) and os.path.samestat(os.fstat(stream.fileno()), store.blob(sha256).stat()):
        return True
    return hash_stream(stream) == sha256
