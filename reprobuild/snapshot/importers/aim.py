"""Importer of runs that Aim exported as JSON.

Format: aim's `sdk/run.py` and `ext/utils.py` (`__system_params`, with `log_system_params=True`), and the answer of its
server to `/api/runs/ID/info/`. Aim keeps runs in a database of its own, so a run is imported by an export.
"""

from __future__ import annotations

from typing import Any

from reprobuild.snapshot.importers.documents import load_document
from reprobuild.snapshot.importers.draft import Draft
from reprobuild.snapshot.importers.exports import find_export
from reprobuild.snapshot.importers.repositories import add_repository
from reprobuild.snapshot.importers.source import ImportSource
from reprobuild.snapshot.importers.toml_documents import string, table
from reprobuild.snapshot.importers.variables import add_variables

_SYSTEM = "__system_params"
_OWN = ("packages", "env_variables", "git_info")
_REASONS = {
    "executable": "it names a person or a machine", "arguments": "the job's own command: `reprobuild run OUT -- CMD`",
    "branch": "the commit says more", "traces": "results of the run", "props": "names and times of the run",
}  # fmt: skip


def recognises(source: ImportSource) -> bool:
    """Return whether the path is an export of a run, or has one at its top."""
    return _file(source) is not None


def read(source: ImportSource) -> Draft:
    """Import a run.

    Raises:
        SnapshotError: it is damaged, or Aim did not log the system.
    """
    file = _file(source)
    assert file is not None
    document = load_document(source, file)
    draft = Draft("Aim run", file)
    field, system = _system_of(document)
    draft.start(table(document, "props").get("creation_time", ""), "props.creation_time")
    for name, version in table(system, "packages").items():
        draft.add_pin(str(name), str(version), f"{field}packages.{name}")
    add_variables(draft, table(system, "env_variables"), f"{field}env_variables")
    git = table(system, "git_info")
    commit = string(table(git, "commit"), "hash")  # abbreviated, as `git log --pretty=%h` prints it
    add_repository(draft, string(git, "remote_origin_url"), commit, f"{field}git_info")
    draft.leave_rest(document, (*_OWN, "params", _SYSTEM), _REASONS)
    draft.leave_rest({} if system is document else system, _OWN, _REASONS)
    for name in table(document, "params"):
        if name != _SYSTEM:
            draft.leave(f"params.{name}", "a hyperparameter of the run")
    return draft


def _file(source: ImportSource) -> str | None:
    return (
        find_export(source, _SYSTEM)
        or find_export(source, "params", "traces", "props")
        or find_export(source, *_OWN, "executable")
    )


def _system_of(document: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the parameters of the system, and the place of their fields in the document."""
    if _SYSTEM in document:
        return f"{_SYSTEM}.", table(document, _SYSTEM)
    if "params" in document:
        return f"params.{_SYSTEM}.", table(table(document, "params"), _SYSTEM)
    return "", document
