"""Where what lay on the captured machine stands in the image."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from msgspec import Struct
from packaging.utils import canonicalize_name

from reprobuild.lock import PREFIX, Source
from reprobuild.snapshot.repositories import Captured, Repository


class Places(Struct, frozen=True):
    """Folders of the captured machine with their folders in the image, the longest first."""

    moved: tuple[tuple[str, str], ...] = ()

    def move(self, path: str) -> str | None:
        """Return the path in the image of a captured one, or None where it is below no known folder."""
        clean = posixpath.normpath(path)
        for old, new in self.moved:
            if clean == old or clean.startswith(old + "/"):
                return new + clean[len(old) :]
        return None


def find_places(captured: Captured | None, environment: str, sources: Iterable[Source]) -> Places:
    """Return what is known of the places of an environment.

    Args:
        environment: its folder on the captured machine (`VIRTUAL_ENV`, `CONDA_PREFIX`), empty where it is unknown.
    """
    found: dict[str, str] = {}
    prefix = captured.python.prefix if captured and captured.python else environment
    if _is_own(prefix):
        found[posixpath.normpath(prefix)] = PREFIX
    for source in sources:
        one = _origin_of(source, captured) if captured else None
        if one and _is_own(one.folder):
            found[posixpath.normpath(one.folder)] = source.path
    return Places(tuple(sorted(found.items(), key=lambda pair: -len(pair[0]))))


def _origin_of(source: Source, captured: Captured) -> Repository | None:
    """Return the captured repository that a source was made of: `resolve_sources` has the names."""
    if source.installed:
        return captured.installs(source.name)
    for one in captured.repositories:
        if one.parent is None and not one.distributions and source.name in job_names(one):
            return one
    return None


def job_names(one: Repository) -> tuple[str, str]:
    """Return the name of the job's own folder as a source, and the one beside an installed source of that name."""
    return canonicalize_name(one.name), canonicalize_name(f"{one.name}-job")


def _is_own(folder: str) -> bool:
    """Tell whether a folder belongs to the environment alone; the prefix of a system's Python does not."""
    return folder.startswith("/") and folder.rstrip("/") not in ("", "/usr", "/usr/local")
