"""Importer of tasks that ClearML exported as JSON (`Task.export_task()`).

Format: clearml's `backend_interface/task/repo/scriptinfo.py`. Its requirements are the packages that the program
imports, unless the task was configured with `detect_with_pip_freeze`.
"""

from __future__ import annotations

import re
from typing import Any

from reprobuild.snapshot.importers.clean_lines import LONGEST_ROW
from reprobuild.snapshot.importers.documents import load_document
from reprobuild.snapshot.importers.draft import Draft
from reprobuild.snapshot.importers.exports import find_export
from reprobuild.snapshot.importers.repositories import add_repository
from reprobuild.snapshot.importers.source import ImportSource
from reprobuild.snapshot.importers.toml_documents import string, table

_HEADER = re.compile(r"#\s*Python (?P<version>.*)")  # the first line of its requirements
_EQUALS = re.compile(r"\s*==\s*")
_OF_CHANGES = "script.diff"
_COMMAND = "the job's own command: `reprobuild run OUT -- CMD`"
_REASONS = {
    "user": "it names a person", "company": "it names a person", "hyperparams": "hyperparameters of the run",
    "configuration": "hyperparameters of the run", "container": "the image that the job ran in: `--base` can take it",
    "name": "a name of the run", "comment": "a text of the run", "entry_point": _COMMAND, "working_dir": _COMMAND,
    "binary": "the requirements name the version of Python", "branch": "the commit says more",
    "tag": "the commit says more",
}  # fmt: skip


def recognises(source: ImportSource) -> bool:
    """Return whether the path is a task, or has one at its top."""
    return _file(source) is not None


def read(source: ImportSource) -> Draft:
    """Import a task.

    Raises:
        SnapshotError: it is damaged.
    """
    file = _file(source)
    assert file is not None
    document = load_document(source, file)
    draft = Draft("ClearML task", file)
    script = table(document, "script")
    draft.start(string(document, "started"), "started")
    requirements = table(script, "requirements")
    _add_requirements(draft, requirements.get("pip"))
    for name in requirements:
        if name != "pip":
            draft.leave(f"script.requirements.{name}", "the list for pip has the distributions")
    changes = string(script, "diff")
    is_diff = changes.startswith("diff --git ") or "\ndiff --git " in changes
    if changes and not is_diff:
        large = "auxiliary_git_diff" in changes
        draft.leave(
            _OF_CHANGES,
            "too large: the artifact auxiliary_git_diff has it" if large else "the program itself",
        )
    commit = string(script, "version_num")
    add_repository(
        draft, string(script, "repository"), commit, "script.repository", changes.encode() * is_diff
    )
    draft.leave_rest(document, ("script", "started"), _REASONS)
    draft.leave_rest(script, ("requirements", "repository", "version_num", "diff"), _REASONS)
    return draft


def _file(source: ImportSource) -> str | None:
    return find_export(source, "script", "type", "hyperparams")


def _add_requirements(draft: Draft, requirements: Any) -> None:
    rows = requirements if isinstance(requirements, list) else str(requirements or "").splitlines()
    for number, row in enumerate(map(str, rows), 1):
        field, header = f"script.requirements.pip line {number}", _HEADER.fullmatch(row)
        if header:
            draft.add_python(header["version"], field)
        elif row.strip() and not row.startswith("#"):  # comments are its analysis, with paths of the machine
            draft.add_row(_EQUALS.sub("==", row.strip()) if len(row) <= LONGEST_ROW else row, field)
