"""Importer of runs that Sacred stored in files.

Format: sacred's `observers/file_storage.py`, `dependencies.py` and `host_info.py`. Its dependencies are the packages
that the main program imports: the rest is open.
"""

from __future__ import annotations

import re
from typing import Any

from reprobuild.snapshot.importers.documents import load_document
from reprobuild.snapshot.importers.draft import REQUIREMENTS, Draft
from reprobuild.snapshot.importers.exports import find_export
from reprobuild.snapshot.importers.repositories import add_repository
from reprobuild.snapshot.importers.source import ImportSource
from reprobuild.snapshot.importers.toml_documents import string, table, tables
from reprobuild.snapshot.importers.variables import add_variables

_PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9.+!_-]*")
_MOST_REPOSITORIES = 100  # each is looked for among all dependencies
_PERSONAL = "it names a person or a machine"
_REASONS = {
    "command": "the job's own command: `reprobuild run OUT -- CMD`", "meta": "options and hyperparameters of the run",
    "result": "a result of the run", "artifacts": "outputs of the run", "resources": "data without a hash of its own",
    "name": "a name of the run", "mainfile": "the job's own program", "base_dir": _PERSONAL, "hostname": _PERSONAL,
    "sources": "copies of the job's programs, in _sources", "cpu": "a fact of the machine, which an image cannot hold",
    "gpus": "a fact of the machine, which an image cannot hold",
}  # fmt: skip


def recognises(source: ImportSource) -> bool:
    """Return whether the path is a run, or its `run.json`."""
    return _file(source) is not None


def read(source: ImportSource) -> Draft:
    """Import a run.

    Raises:
        SnapshotError: it is damaged.
    """
    file = _file(source)
    assert file is not None
    document = load_document(source, file)
    draft = Draft("Sacred run", file)
    experiment, host = table(document, "experiment"), table(document, "host")
    draft.start(string(document, "start_time"), "start_time")
    _add_dependencies(draft, experiment.get("dependencies"))
    system = host.get("os")
    platform = system[-1] if isinstance(system, list) and system else ""
    draft.add_python(string(host, "python_version"), "host.python_version", platform)
    add_variables(draft, table(host, "ENV"), "host.ENV")
    _add_repositories(draft, tables(experiment, "repositories"))
    draft.leave_rest(document, ("experiment", "host", "start_time"), _REASONS)
    draft.leave_rest(experiment, ("dependencies", "repositories"), _REASONS)
    draft.leave_rest(host, ("python_version", "os", "ENV"), _REASONS)
    for name in source.names:
        if name != file:
            draft.source = name
            draft.leave("the file", "a copy of the job's program" if "/" in name else "an output of the run")
    draft.source = file
    return draft


def _file(source: ImportSource) -> str | None:
    return find_export(source, "experiment", "host", "command")


def _add_dependencies(draft: Draft, dependencies: Any) -> None:
    for number, line in enumerate(dependencies if isinstance(dependencies, list) else ()):
        field = f"experiment.dependencies[{number}]"
        if isinstance(line, str) and _PIN.fullmatch(line):
            draft.add(REQUIREMENTS, line, field)
        else:  # `name==<unknown>`
            draft.leave_requirement(field, "Sacred does not know its version")


def _add_repositories(draft: Draft, repositories: list[dict[str, Any]]) -> None:
    """Add the repositories of the run: one entry for each of its programs, most of them alike."""
    distinct = {(string(entry, "url"), string(entry, "commit")): entry for entry in repositories}
    for number, ((url, commit), entry) in enumerate(distinct.items()):
        field = f"experiment.repositories[{number}]"
        if number >= _MOST_REPOSITORIES:
            draft.leave(field, f"a run with more than {_MOST_REPOSITORIES} repositories")
            continue
        add_repository(draft, url, commit, field)
        if entry.get("dirty") is True:
            draft.leave(
                f"{field}.dirty", "changes that Sacred does not record; _sources has the changed programs"
            )
