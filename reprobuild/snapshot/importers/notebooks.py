"""Facts of a Jupyter notebook beside a run: the version of Python, and the name of its kernel.

Format: https://nbformat.readthedocs.io/en/latest/format_description.html
"""

from __future__ import annotations

from reprobuild.snapshot.importers.documents import load_document
from reprobuild.snapshot.importers.draft import PYTHON, Draft
from reprobuild.snapshot.importers.source import ImportSource
from reprobuild.snapshot.importers.toml_documents import string, table


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
        draft.leave_rest(document, ("metadata",), {"cells": "the program itself, and its outputs"})


def _files(source: ImportSource) -> list[str]:
    return [name for name in source.names if "/" not in name and name.endswith(".ipynb")]
