"""The project in a directory, by its files."""

from __future__ import annotations

import os
import re
from typing import Sequence

from reprobuild_portable.capture.files import _text
from reprobuild_portable.pip_freeze.pins import canonical_name

# The section of each file that may state the name.
_NAMING_FILES = (
    ("pyproject.toml", ("project", "tool.poetry")),
    ("setup.cfg", ("metadata",)),
    ("setup.py", ()),
)
_FILE_SECTION = re.compile(r"\[\s*([A-Za-z0-9_.-]+)\s*\]\s*(?:#.*)?")
_STATED_NAME = re.compile(r"""name\s*=\s*["']?([A-Za-z0-9][A-Za-z0-9._-]*)["']?\s*(?:#.*)?""")


def is_project(folder: str, name: str) -> bool:
    """Return whether a directory can be the source of a distribution.

    A wheel may state that it is an editable install of any directory. A directory without a project, or with one of
    another name, is not taken for its source. A directory that is gone may have been the source.
    """
    known = not os.path.isdir(folder)
    for file, sections in _NAMING_FILES:
        path = os.path.join(folder, file)
        if not os.path.isfile(path):
            continue
        known = True
        stated = _read_stated_name(_text(path), sections)
        if stated:
            return canonical_name(stated) == canonical_name(name)
    return known


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
