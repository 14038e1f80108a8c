"""The check if the disks have room for a build."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from reprobuild.errors import UsageError
from reprobuild.infra.flock import machine_name
from reprobuild.lock.model import Lock
from reprobuild.lock.system import Artefact
from reprobuild.store.fetch import list_artefacts
from reprobuild.store.store import Store

# Measured on an example of 331 MB (69 MB of packages, 262 MB of wheels): the tree of the base is 4.3 times
# its packages, and is in the store as tar and as directory, and during the build twice more; bytecode is 0.66
# times the wheels; layers are 1.1 times all files. Output directories on the store's own file system hold
# links.
BASE_MAKING, BASE_TREE, BYTECODE, LAYERS = 17.0, 4.3, 0.7, 1.2
_ROOM = "make room there, or name another directory (`--store`, `--output`)"


def check_disks(lock: Lock, store: Store, out: Path, realised: bool) -> Iterator[str]:
    """Yield a warning for each disk that may become full.

    Raises:
        UsageError: a disk lacks room for the files that must be fetched.
    """
    everything = list_artefacts(lock)
    files_, wheels = sum(item.size for item in everything), sum(wheel.file.size for wheel in lock.wheels)
    debs = sum(deb.file.size for deb in (*lock.base.packages, *lock.base.tools))
    debs += sum(layer.file.size for layer in lock.base.image.layers) if lock.base.image else 0
    missing = sum(
        item.size - _partial_size(item, store) for item in everything if not store.has(item.sha256, item.size)
    )
    in_store = missing + LAYERS * files_ + (0 if realised else BASE_MAKING * debs + BYTECODE * wheels)
    in_out = BASE_TREE * debs + (1 + BYTECODE) * wheels + LAYERS * files_
    same_disk = _nearest_existing(store.root).stat().st_dev == _nearest_existing(out).stat().st_dev
    needs = (
        [(store.root, missing, in_store)]
        if same_disk
        else [(store.root, missing, in_store), (out, 0, in_out)]
    )
    for place, certain, likely in needs:
        status = os.statvfs(_nearest_existing(place))
        free = status.f_bavail * status.f_frsize
        if free < certain:
            raise UsageError(
                f"{place} has room for {free / 1e6:.0f} MB, and {certain / 1e6:.0f} MB are to be fetched",
                hint=_ROOM,
            )
        if free < likely:
            yield f"{place} has room for {free / 1e6:.0f} MB, and about {likely / 1e6:.0f} MB will be needed"


def _partial_size(item: Artefact, store: Store) -> int:
    """Return the size of a file's already fetched part.

    The next run continues from there. The size is in bytes.
    """
    try:
        return min(item.size, (store.root / "partial" / f"{item.sha256}.{machine_name()}").stat().st_size)
    except OSError:
        return 0


def _nearest_existing(path: Path) -> Path:
    """Return the path, or its nearest existing parent."""
    return next((place for place in (path, *path.absolute().parents) if place.exists()), Path("/"))
