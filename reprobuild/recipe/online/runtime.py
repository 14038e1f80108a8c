"""The part of the runtime package that an online image carries: entrypoint, seeding hook and profiles.

The probes of `verify` and the other programs are three quarters of the package, and a job does not use them.
"""

from __future__ import annotations

import bz2
import io
from collections.abc import Mapping

from reprobuild.infra.tar.entries import list_parents
from reprobuild.infra.tar.writing import TarWriter
from reprobuild.lock.model import SealedLock
from reprobuild.lock.system import FILES
from reprobuild.recipe.image_config import environ_file
from reprobuild.recipe.online.embedded import embed
from reprobuild.recipe.online.model import WORK, EmbeddedFile
from reprobuild.recipe.payload import payload_files
from reprobuild.store.store import Store

_PACKAGE = f"{FILES[1:]}/lib/reprobuild_runtime/"
# Directories and modules of the package that neither the entrypoint nor the hook imports.
_UNUSED = (
    "artefacts/", "probes/", "capture.py", "digest.py", "fingerprint.py", "freeze.py", "freezeline.py", "gittree.py",
    "install.py",
)  # fmt: skip


def pack_seeding(lock: SealedLock, store: Store) -> EmbeddedFile:
    """Return the archive of our own files, a tar by bzip2.

    Unlike zlib, bzip2 has one implementation, so the same files give the same text on each machine.
    """
    contents = seeding_files({**environ_file(lock), **payload_files(lock, store)})
    stream = io.BytesIO()
    writer = TarWriter(stream, lock.epoch)
    for directory in list_parents(contents):
        writer.directory(directory)
    for name, content in sorted(contents.items()):
        writer.file(name, content)
    writer.close()
    return embed(f"{WORK}/runtime.tar.bz2", bz2.compress(stream.getvalue()))


def seeding_files(contents: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files of the payload that a running job uses, without bytecode."""
    return {
        path: content
        for path, content in contents.items()
        if "/__pycache__/" not in path and not path.removeprefix(_PACKAGE).startswith(_UNUSED)
    }
