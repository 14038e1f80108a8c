"""Importer of the JSON of `pip inspect`.

Format: https://pip.pypa.io/en/stable/reference/inspect-report/
"""

from __future__ import annotations

import posixpath
from typing import Any
from urllib.parse import unquote, urlsplit

from reprobuild.snapshot.importers.documents import load_document
from reprobuild.snapshot.importers.draft import Draft
from reprobuild.snapshot.importers.local_sources import add_directory
from reprobuild.snapshot.importers.people import without_home
from reprobuild.snapshot.importers.project_requirements import (
    add_direct,
    add_pinned,
    leave_requirement,
)
from reprobuild.snapshot.importers.source import ImportSource
from reprobuild.snapshot.importers.toml_documents import string, table, tables

_UNUSED = {"version": "the format", "pip_version": "pip is a line of its own"}


def recognises(source: ImportSource) -> bool:
    """Return whether a file at the top is named as such a report."""
    return _file(source) is not None


def read(source: ImportSource) -> Draft:
    """Import a report of `pip inspect`.

    Raises:
        SnapshotError: it is damaged, or lists nothing.
    """
    file = _file(source)
    assert file is not None
    document = load_document(source, file)
    draft = Draft("pip inspect", file)
    for number, entry in enumerate(tables(document, "installed")):
        _add_installed(draft, source, entry, f"installed[{number}]")
    environment = table(document, "environment")
    system = string(environment, "platform_system"), string(environment, "platform_machine")
    draft.add_python(string(environment, "python_full_version"), "environment.python_full_version", "-".join(
        (system[0], "", system[1])
    ))  # fmt: skip
    draft.leave_rest(document, ("installed", "environment"), _UNUSED)
    return draft


def _file(source: ImportSource) -> str | None:
    top = [name for name in source.names if "/" not in name]
    return next(
        (
            name
            for name in top
            if name.lower().replace("_", "-").endswith(("pip-inspect.json", "inspect.json"))
        ),
        None,
    )


def _add_installed(draft: Draft, source: ImportSource, entry: dict[str, Any], field: str) -> None:
    metadata = table(entry, "metadata")
    name, version = string(metadata, "name"), string(metadata, "version")
    direct = table(entry, "direct_url")
    url, vcs, archive = string(direct, "url"), table(direct, "vcs_info"), table(direct, "archive_info")
    subdirectory = string(direct, "subdirectory")
    directory = table(direct, "dir_info") if "dir_info" in direct else None
    if vcs:
        repository = f"{string(vcs, 'vcs')}+{url}@{string(vcs, 'commit_id')}"
        editable = bool(table(direct, "dir_info").get("editable"))
        add_direct(draft, name, repository, field, editable=editable, subdirectory=subdirectory)
    elif directory is not None:
        add_directory(
            draft, source, name, version,
            posixpath.join(without_home(unquote(urlsplit(url).path)), subdirectory), field,
            editable=bool(directory.get("editable")),
        )  # fmt: skip
    elif "archive_info" in direct:  # its hash may be missing
        algorithm, _, value = string(archive, "hash").partition("=")
        stated = {algorithm: value, **table(archive, "hashes")}
        hashes = [f"{kind}:{hexadecimal}" for kind, hexadecimal in stated.items() if hexadecimal]
        add_direct(draft, name, url, field, hashes=hashes, subdirectory=subdirectory)
    elif name and version:
        add_pinned(draft, name, version, field)
    else:
        leave_requirement(draft, field, "it has no name and version")
