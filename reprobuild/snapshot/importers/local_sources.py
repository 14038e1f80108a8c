"""Distributions that a lock installs from a directory beside it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from urllib.parse import quote, unquote

from reprobuild.infra.untrusted.strings import ProjectName, is_valid
from reprobuild.snapshot.importers.draft import PIN, REQUIREMENTS, Draft
from reprobuild.snapshot.importers.people import without_home
from reprobuild.snapshot.importers.project_requirements import (
    NO_MARKER,
    add_direct,
    is_plain,
    leave_requirement,
)
from reprobuild.snapshot.importers.source import ImportSource

_OTHER_PART = re.compile(r"\s[;-]|\s@\s")  # of a line of pip, behind a blank
_ARCHIVE = re.compile(r".*\.(?:whl|tar\.gz|tgz|tar\.bz2|tar\.xz|zip|egg)", re.DOTALL)
_PRINTABLE = re.compile(r"[^\x00-\x1f\x7f]+")


def add_directory(
    draft: Draft, source: ImportSource, name: str, version: str, place: str, field: str, *, editable: bool,
    marker: str = "",
) -> None:  # fmt: skip
    """Add a distribution that is installed from a directory, as `pip freeze` prints it.

    The name of a person in its path does not travel: `--source NAME=DIR` gives the directory, and the path tells only
    where in a repository it is. A lock in an archive has no directory around it: the line then has only the name.

    Args:
        place: its directory, relative to the lock.
        editable: whether it is an editable install, which has no marker.
        marker: of the environments that have it; empty for all.
    """
    path = without_home(os.path.normpath(source.home.absolute() / place)) if source.home and place else ""
    if not is_valid(name, ProjectName) or not PIN.fullmatch(f"{name}=={version or 0}"):
        leave_requirement(draft, field, "its name or its version is not valid")
        return
    if path and not _PRINTABLE.fullmatch(path):
        leave_requirement(draft, field, "its directory has a name with control characters")
        return
    if not is_plain(path) or _OTHER_PART.search(path):
        leave_requirement(draft, field, "its directory has a name with a comment, a marker or an option")
        return
    if marker and (editable or not path):
        leave_requirement(draft, field, NO_MARKER)
    elif editable or not path:
        draft.add(REQUIREMENTS, f"# Editable install with no version control ({name}=={version})", field)
        if path:
            draft.add(REQUIREMENTS, f"-e {path}", field)
    elif marker:
        add_direct(draft, name, f"file://{path}", field, marker=marker)
    else:
        draft.add(REQUIREMENTS, f"{name} @ file://{path}", field)


def is_archive(place: str) -> bool:
    """Return whether a place has the name of a wheel or of an archive."""
    return _ARCHIVE.fullmatch(place) is not None


def add_file(
    draft: Draft, source: ImportSource, name: str, place: str, field: str, *, hashes: Iterable[str], marker: str = "",
    subdirectory: str = "",
) -> None:  # fmt: skip
    """Add a distribution that is installed from a wheel or an archive beside the lock, or a line that a lock asks for.

    Args:
        place: the file, relative to the lock.
        hashes: of the file, each `ALGORITHM:HEX`.
        marker: of the environments that have it; empty for all.
        subdirectory: the directory of the project in the archive.
    """
    bare = unquote(place.removeprefix("file://")) if place.startswith("file://") else place
    if source.home is None:
        leave_requirement(
            draft, field, "its file is beside the lock: unpack the archive, and import the directory"
        )
    elif not is_archive(bare) or not bare.isprintable():
        leave_requirement(draft, field, "its file has no name of a wheel or of an archive")
    else:
        path = without_home(os.path.normpath(source.home.absolute() / bare))
        address = f"file://{quote(path)}"
        add_direct(draft, name, address, field, hashes=hashes, marker=marker, subdirectory=subdirectory)
