"""The last check for secret files in sources.

Their names identify these files, such as `.env`.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

from reprobuild.errors import DistributionError
from reprobuild.infra.display import display_path, escape_text
from reprobuild.infra.untrusted.names import HOSTILE
from reprobuild.infra.untrusted.tars import UNREADABLE, members, open_stream
from reprobuild.lock.model import Lock
from reprobuild.lock.system import Artefact
from reprobuild.recipe.render import source_file
from reprobuild.store.store import Store
from reprobuild_portable import secrets
from reprobuild_portable.hashing import hash_file

SECRET_FILE = "secret-file"  # the kind of the resolutions of `lock` that accept one
_LARGEST = 16 << 20


def refuse_secret_files(lock: Lock, place_of: Callable[[Artefact], Path | None]) -> None:
    """Refuse a source's secret files without acceptance in the lock.

    Args:
        lock: its resolutions record the files that the user accepted.
        place_of: returns the tar of a source, or None if it is not available.

    Raises:
        DistributionError: with source and path, never the text; or a source is damaged.
        BuildError: a source has too many members.
    """
    accepted = {ruling.subject for ruling in lock.rulings if ruling.kind == SECRET_FILE and ruling.accepted}
    for source in lock.sources:
        place = place_of(source.file)
        for path in _secret_files(place) if place else ():
            shown = display_path(path)
            if f"{source.name}/{shown}" not in accepted:
                whole = shown == escape_text(path)
                word = shlex.quote(f"{source.name}/{path}" if whole else SECRET_FILE)
                raise DistributionError(
                    f"{source.name}/{shown}: files of this name hold secrets, and are not handed to others",
                    hint=f"take it out of the source, or accept it with `reprobuild lock --accept {word}`",
                )


def make_source_finder(out: Path, lock: Lock, store: Store) -> Callable[[Artefact], Path | None]:
    """Return a function that finds the tar of a source.

    It looks in the store, and in the context of an output directory.
    """
    places = {source.file.sha256: out / "context" / source_file(source) for source in lock.sources}

    def place_of(file: Artefact) -> Path | None:
        if store.has(file.sha256):
            return store.verified(file.sha256, file.filename)
        place = places[file.sha256]
        return place if place.is_file() and hash_file(place) == file.sha256 else None

    return place_of


def _secret_files(place: Path) -> Iterator[str]:
    """Yield the paths of secret files in a source's tar."""
    try:
        with place.open("rb") as file, open_stream(file) as tar:
            for member in members(tar, place.name):
                is_named = member.isreg() and secrets.secret_name_of_file(member.name)
                stream = tar.extractfile(member) if is_named else None
                if stream and secrets.secret_file(member.name, stream.read(_LARGEST)):
                    yield member.name
    except UNREADABLE as err:
        raise DistributionError(f"a source cannot be searched for secrets: {err}", hint=HOSTILE) from None
