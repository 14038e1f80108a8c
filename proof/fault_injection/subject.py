"""The lock of the faults: smaller, and fetched without a network."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from reprobuild.lock.model import AnyLock, SealedLock
from reprobuild.lock.system import Artefact


def without(lock: SealedLock, names: Sequence[str]) -> SealedLock:
    """Return the lock without some wheels of its environment."""
    gone = {wheel.file.sha256 for wheel in lock.wheels if wheel.name in names}
    bytecode = tuple(code for code in lock.realised.bytecode if code.artefact not in gone)
    return msgspec.structs.replace(
        lock,
        wheels=tuple(wheel for wheel in lock.wheels if wheel.file.sha256 not in gone),
        realised=msgspec.structs.replace(lock.realised, bytecode=bytecode),
    )


def local_lock(lock: AnyLock, store: Path, mirror: Path) -> AnyLock:
    """Return the lock with `file:` addresses of hard links.

    It can then be fetched without a network.
    """

    def local(file: Artefact) -> Artefact:
        if not file.url:
            return file
        path = mirror / file.sha256
        if not path.exists():
            os.link(store / "blobs" / file.sha256[:2] / file.sha256, path)
        return msgspec.structs.replace(file, url=path.as_uri())

    def all_of(items: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(msgspec.structs.replace(item, file=local(item.file)) for item in items)

    base = msgspec.structs.replace(
        lock.base, packages=all_of(lock.base.packages), tools=all_of(lock.base.tools)
    )
    return msgspec.structs.replace(lock, base=base, wheels=all_of(lock.wheels))
