"""Distributions that a lock installs from a directory beside it."""

from __future__ import annotations

import os
import re

from reprobuild.snapshot.importers.draft import REQUIREMENTS, Draft
from reprobuild.snapshot.importers.people import without_home
from reprobuild.snapshot.importers.source import ImportSource

_PRINTABLE = re.compile(r"[^\x00-\x1f\x7f]+")


def add_directory(
    draft: Draft, source: ImportSource, name: str, version: str, place: str, field: str, *, editable: bool
) -> None:
    """Add a distribution that is installed from a directory, as `pip freeze` prints it.

    The name of a person in its path does not travel: `--source NAME=DIR` gives the directory, and the path tells only
    where in a repository it is. A lock in an archive has no directory around it: the line then has only the name.

    Args:
        place: its directory, relative to the lock.
        editable: whether it is an editable install.
    """
    path = without_home(os.path.normpath(source.home.absolute() / place)) if source.home and place else ""
    if path and not _PRINTABLE.fullmatch(path):
        draft.leave(field, "its directory has a name with control characters")
        return
    if editable or not path:
        draft.add(REQUIREMENTS, f"# Editable install with no version control ({name}=={version})", field)
        if path:
            draft.add(REQUIREMENTS, f"-e {path}", field)
    else:
        draft.add(REQUIREMENTS, f"{name} @ file://{path}", field)
