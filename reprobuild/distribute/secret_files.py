"""The last gate for files of sources whose names say that they hold secrets: such as `.env`."""

from __future__ import annotations

import shlex
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

from reprobuild.errors import ShipError
from reprobuild.infra.display import escaped
from reprobuild.lock.lock import Artefact, Lock
from reprobuild.recipe.render import source_file
from reprobuild.store.store import Store, hash_file
from reprobuild_portable import secrets

SECRET_FILE = "secret-file"  # the class of the rulings of `lock` that accept one
_LARGEST = 16 << 20


def refuse_secret_files(lock: Lock, place_of: Callable[[Artefact], Path | None]) -> None:
    """Stop where a source has a file that is a secret by its name, and the lock does not accept it.

    Args:
        lock: its rulings say what the user accepted.
        place_of: the tar of a source, None where it is not at hand.

    Raises:
        ShipError: with source and path; never the text.
    """
    accepted = {one.subject for one in lock.rulings if one.kind == SECRET_FILE and one.accepted}
    for source in lock.sources:
        place = place_of(source.file)
        for path in _secret_files(place) if place else ():
            if f"{source.name}/{escaped(path)}" not in accepted:
                word = shlex.quote(f"{source.name}/{path}")
                raise ShipError(
                    f"{source.name}/{escaped(path)}: files of this name hold secrets, and are not handed to others",
                    hint=f"take it out of the source, or accept it with `reprobuild lock --accept {word}`",
                )


def beside(out: Path, lock: Lock, store: Store) -> Callable[[Artefact], Path | None]:
    """Return how to find the tar of a source: in the store, or in the context of a folder of results."""
    places = {source.file.sha256: out / "context" / source_file(source) for source in lock.sources}

    def place_of(file: Artefact) -> Path | None:
        if store.has(file.sha256):
            return store.verified(file.sha256, file.filename)
        place = places[file.sha256]
        return place if place.is_file() and hash_file(place) == file.sha256 else None

    return place_of


def _secret_files(place: Path) -> Iterator[str]:
    """Yield the paths in the tar of a source that are secrets by their names."""
    with tarfile.open(place) as tar:
        for member in tar:
            stream = tar.extractfile(member) if secrets.secret_name_of_file(member.name) else None
            if stream and secrets.secret_file(member.name, stream.read(_LARGEST)):
                yield member.name
