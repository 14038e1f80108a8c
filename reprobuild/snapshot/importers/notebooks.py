"""Facts of a Jupyter notebook beside a run: the version of Python, its kernel, and the modules that it imports.

Format: https://nbformat.readthedocs.io/en/latest/format_description.html
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from reprobuild.snapshot.importers.documents import load_document
from reprobuild.snapshot.importers.draft import PYTHON, Draft
from reprobuild.snapshot.importers.source import ImportSource
from reprobuild.snapshot.importers.toml_documents import string, table, tables

# A line of a cell; a module of the notebook's own directory begins with a dot.
_IMPORT = re.compile(
    r"[ \t]*(?:from[ \t]+(?P<module>[A-Za-z_]\w*)(?:\.[\w.]*)?[ \t]+import\b"
    r"|import[ \t]+(?P<modules>[A-Za-z_][\w., \t]*))",
    re.ASCII,
)
_MOST_NAMES, _LONGEST_NAME = 30, 100
_LONGEST_LINE = 1000  # characters of a line that is searched: people write shorter ones
_MOST_CODE = 4 << 20  # characters of code that are searched in all notebooks; a large one has some 100 KB
_MOST = 64 << 20  # bytes of all notebooks: pictures are in them
_TOO_MANY = f"the notebooks before it have more than {_MOST >> 20} MiB"
_REST = f"; imports in code after the first {_MOST_CODE >> 20} MiB are not looked for"


def recognises(source: ImportSource) -> bool:
    """Return whether the path is a notebook, or has one at its top."""
    return bool(_files(source))


def add(draft: Draft, source: ImportSource) -> None:
    """Add the version of Python of the first notebook, if no file of the run has it.

    Raises:
        SnapshotError: a notebook is damaged.
    """
    size = code = 0
    for name in _files(source):
        draft.source = name
        if size > _MOST:
            draft.leave("the file", _TOO_MANY)
            continue
        size += source.size(name)
        document = load_document(source, name)
        metadata = table(document, "metadata")
        version = string(table(metadata, "language_info"), "version")
        if version and not draft.has(PYTHON):
            draft.add_python(version, "metadata.language_info.version")
        elif version:
            draft.leave("metadata.language_info.version", "another file has the version of Python")
        draft.leave_rest(metadata, ("language_info",), {"kernelspec": "the name of a kernel of that machine"})
        cells, code = _first_code(document, code)
        imports = _describe(cells) + _REST * (code > _MOST_CODE)
        draft.leave_rest(document, ("metadata",), {"cells": f"the program itself, and its outputs{imports}"})


def _first_code(document: Mapping[str, Any], searched: int) -> tuple[list[str], int]:
    """Return the code of the cells, as far as the bound for all notebooks allows it, and the characters so far.

    Args:
        document: the notebook.
        searched: the characters of code in the notebooks before it.
    """
    cells: list[str] = []
    for cell in tables(document, "cells"):
        if cell.get("cell_type") != "code":
            continue
        stated = cell.get("source")
        lines = stated if isinstance(stated, list) else [stated]
        code = "".join(line for line in lines if isinstance(line, str))
        searched += len(code)
        if searched > _MOST_CODE:
            break
        cells.append(code)
    return cells, searched


def _describe(cells: Iterable[str]) -> str:
    """Return the modules that cells import, without those of Python, for the reader of `import.json`.

    A module does not name its distribution, so that no requirement follows from it.
    """
    names = sorted(_find_imports(cells) - sys.stdlib_module_names)
    if not names:
        return ""
    more = f", and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"; they import {', '.join(names[:_MOST_NAMES])}{more}, which the requirements must provide"


def _find_imports(cells: Iterable[str]) -> set[str]:
    """Return the top-level modules that the lines of cells import."""
    names: set[str] = set()
    for code in cells:
        for line in code.split("\n"):
            match = _IMPORT.match(line) if len(line) <= _LONGEST_LINE else None
            if match is None:
                continue
            modules = [match["module"]] if match["module"] else match["modules"].split(",")
            words = (module.strip().partition(" ")[0].partition(".")[0] for module in modules)
            names.update(word[:_LONGEST_NAME] for word in words if word)
    return names


def _files(source: ImportSource) -> list[str]:
    return [name for name in source.names if "/" not in name and name.endswith(".ipynb")]
