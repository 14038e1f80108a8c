"""The project in a directory, by its files."""

from __future__ import annotations

import os
import re
from typing import Sequence, Set

from reprobuild_portable.capture.files import _scan, _text
from reprobuild_portable.capture.limits import NAMING_FILE
from reprobuild_portable.pip_freeze.pins import canonical_name

# The sections of each file that may state the name.
_NAMING_FILES = (
    ("pyproject.toml", ("project", "tool.poetry", "tool.flit.metadata")),
    ("setup.cfg", ("metadata",)),
    ("setup.py", ()),
)
_FILE_SECTION = re.compile(r"\[\s*([A-Za-z0-9_.-]+)\s*\]\s*(?:#.*)?")
_STATED_NAME = re.compile(r"""(?:dist-)?name\s*=\s*["']?([A-Za-z0-9][A-Za-z0-9._-]*)["']?\s*(?:#.*)?""")


def read_project_names(folder: str) -> Set[str]:
    """Return the canonical names that the project in a directory has.

    A wheel may state that it is an editable install of any directory. The directory must have a project of that name:
    by its files, or by the metadata that setuptools leaves there (`NAME.egg-info`) if they state no name. The set is
    empty if the directory has no project.
    """
    known = False
    for file, sections in _NAMING_FILES:
        path = os.path.join(folder, file)
        if os.path.isfile(path):
            known = True
            stated = _read_stated_name(_text(path, NAMING_FILE), sections)
            if stated:
                return {canonical_name(stated)}
    return _list_built_names(folder) if known else set()


def _list_built_names(folder: str) -> Set[str]:
    """Return the names of the metadata that setuptools made in a project."""
    return {
        canonical_name(entry.name[: -len(".egg-info")])
        for place in (folder, os.path.join(folder, "src"))
        for entry in _scan(place)
        if entry.name.endswith(".egg-info")
    }


def _read_stated_name(text: str, sections: Sequence[str]) -> str:
    current = ""
    for line in text.splitlines():
        header = _FILE_SECTION.fullmatch(line.strip())
        if header:
            current = header[1]
            continue
        stated = _STATED_NAME.fullmatch(line.strip()) if current in sections else None
        if stated:
            return stated[1]
    return ""
