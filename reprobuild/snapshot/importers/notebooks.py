"""Facts of a Jupyter notebook beside a run: the version of Python, its kernel, and the modules that it imports.

Format: https://nbformat.readthedocs.io/en/latest/format_description.html
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any

from reprobuild.snapshot.importers.documents import load_document
from reprobuild.snapshot.importers.draft import PYTHON, Draft
from reprobuild.snapshot.importers.source import ImportSource
from reprobuild.snapshot.importers.toml_documents import string, table, tables

# A line of a cell; a module of the notebook's own directory begins with a dot.
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<module>[A-Za-z_]\w*)[\w.]*[ \t]+import\b|import[ \t]+(?P<modules>[A-Za-z_][\w., \t]*))",
    re.MULTILINE | re.ASCII,
)
_MOST_NAMES, _LONGEST_NAME = 30, 100


def recognises(source: ImportSource) -> bool:
    """Return whether the path is a notebook, or has one at its top."""
    return bool(_files(source))


def add(draft: Draft, source: ImportSource) -> None:
    """Add the version of Python of the first notebook, if no file of the run has it.

    Raises:
        SnapshotError: a notebook is damaged.
    """
    for name in _files(source):
        draft.source = name
        document = load_document(source, name)
        metadata = table(document, "metadata")
        version = string(table(metadata, "language_info"), "version")
        if version and not draft.has(PYTHON):
            draft.add_python(version, "metadata.language_info.version")
        elif version:
            draft.leave("metadata.language_info.version", "another file has the version of Python")
        draft.leave_rest(metadata, ("language_info",), {"kernelspec": "the name of a kernel of that machine"})
        draft.leave_rest(
            document, ("metadata",), {"cells": f"the program itself, and its outputs{_describe(document)}"}
        )


def _describe(document: Mapping[str, Any]) -> str:
    """Return the modules that the cells import, without those of Python, for the reader of `import.json`.

    A module does not name its distribution, so that no requirement follows from it.
    """
    names = sorted(_find_imports(document) - sys.stdlib_module_names)
    if not names:
        return ""
    more = f", and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"; they import {', '.join(names[:_MOST_NAMES])}{more}, which the requirements must provide"


def _find_imports(document: Mapping[str, Any]) -> set[str]:
    """Return the top-level modules that the lines of code cells import."""
    names: set[str] = set()
    for cell in tables(document, "cells"):
        source = cell.get("source")
        lines = source if isinstance(source, list) else [source]
        code = (
            "".join(line for line in lines if isinstance(line, str))
            if cell.get("cell_type") == "code"
            else ""
        )
        for match in _IMPORT.finditer(code):
            modules = [match["module"]] if match["module"] else match["modules"].split(",")
            words = (module.strip().partition(" ")[0].partition(".")[0] for module in modules)
            names.update(word[:_LONGEST_NAME] for word in words if word)
    return names


def _files(source: ImportSource) -> list[str]:
    return [name for name in source.names if "/" not in name and name.endswith(".ipynb")]
