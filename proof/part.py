"""One part of the work, and its results.

`python -m proof.part base|seal|image|sif LOCK FOLDER plain|far`.

FOLDER/store has all files of LOCK. Prints {name: digest}: for `base` and `seal` each file that was made.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from msgspec import structs

from proof import clock
from proof.factors import digests
from reprobuild.context import RunContext
from reprobuild.infra.http.client import Net
from reprobuild.infra.progress import ignore_progress
from reprobuild.infra.tar.reading import list_tar
from reprobuild.lock.file import read_lock
from reprobuild.lock.model import Lock
from reprobuild.pipeline.build import BuildOptions
from reprobuild.pipeline.from_lock import build_from_lock
from reprobuild.realise.base import realise_base
from reprobuild.realise.realise import realise
from reprobuild.store.store import Store


def main(part: str, lock_path: Path, folder: Path, circumstances: str) -> dict[str, str]:
    lock, store = read_lock(lock_path), Store(folder / "store")
    if part == "base":
        return entries(realise_base(lock.base, store, lock.epoch), store)
    if circumstances == "far":  # other modules compiled at the same time must not matter either
        realise(structs.replace(lock, wheels=lock.wheels[-2:], sources=()), store)
    sealed = realise(lock, store)
    if part == "seal":
        names = {wheel.file.sha256: wheel.name for wheel in (*lock.wheels, *sealed.realised.wheels)}
        tars = {names[code.artefact]: entries(code.tar, store) for code in sealed.realised.bytecode}
        built = {f"the wheel of {wheel.name}": wheel.file.sha256 for wheel in sealed.realised.wheels}
        return built | {
            f"{name} {path}": digest for name, made in tars.items() for path, digest in made.items()
        }
    if part == "sif":
        os.environ["SOURCE_DATE_EPOCH"] = "1"
    return image(sealed, folder, store, part)


def entries(tar: str, store: Store) -> dict[str, str]:
    """Return {path: facts} of a tar in the store.

    The order and the bytes between count, too.
    """
    with store.blob(tar).open("rb") as stream:
        found = {
            entry.path: f"{entry.mode:o} {entry.uid} {entry.target} {entry.sha256}"
            for entry in list_tar(stream)
        }
    return {**found, "the tar": tar}


def image(sealed: Lock, folder: Path, store: Store, part: str) -> dict[str, str]:
    """Build the image, and return the digests of the part."""
    session = RunContext(
        store=store, net=Net(offline=True), env=dict(os.environ), folder=folder, say=lambda _: None,
        progress=ignore_progress, now=0,
    )  # fmt: skip
    build_from_lock(sealed, folder / "out", session, BuildOptions(singles=("sif",)))
    found = digests(folder / "out")
    return (
        {"sif": found["sif"]}
        if part == "sif"
        else {name: found[name] for name in ("recipe and context", "manifest")}
    )


if __name__ == "__main__":
    if clock.DAYS in os.environ:
        clock.live_later()
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4])))
