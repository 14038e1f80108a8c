"""Distributions that a lock installs from a directory beside it."""

from __future__ import annotations

import os
import re

from reprobuild.infra.untrusted.strings import ProjectName, is_valid
from reprobuild.snapshot.importers.draft import PIN, REQUIREMENTS, Draft
from reprobuild.snapshot.importers.people import without_home
from reprobuild.snapshot.importers.project_requirements import is_plain, leave_requirement
from reprobuild.snapshot.importers.source import ImportSource

_OTHER_PART = re.compile(r"\s[;-]|\s@\s")  # of a line of pip, behind a blank
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
    if not is_valid(name, ProjectName) or not PIN.fullmatch(f"{name}=={version or 0}"):
        leave_requirement(draft, field, "its name or its version is not valid")
        return
    if path and not _PRINTABLE.fullmatch(path):
        leave_requirement(draft, field, "its directory has a name with control characters")
        return
    if not is_plain(path) or _OTHER_PART.search(path):
        leave_requirement(draft, field, "its directory has a name with a comment, a marker or an option")
        return
    if editable or not path:
        draft.add(REQUIREMENTS, f"# Editable install with no version control ({name}=={version})", field)
        if path:
            draft.add(REQUIREMENTS, f"-e {path}", field)
    else:
        draft.add(REQUIREMENTS, f"{name} @ file://{path}", field)
