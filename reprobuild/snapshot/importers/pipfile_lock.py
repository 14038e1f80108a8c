"""Importer of `Pipfile.lock`.

Format: https://pipenv.pypa.io/en/stable/pipfile.html
"""

from __future__ import annotations

from typing import Any

from reprobuild.snapshot.importers.documents import load_document
from reprobuild.snapshot.importers.draft import Draft
from reprobuild.snapshot.importers.local_sources import add_directory
from reprobuild.snapshot.importers.project_requirements import add_direct, add_pinned
from reprobuild.snapshot.importers.source import ImportSource
from reprobuild.snapshot.importers.toml_documents import string, table

NAME = "Pipfile.lock"
_UNUSED = {"develop": "`pipenv install` installs it only with `--dev`"}


def recognises(source: ImportSource) -> bool:
    """Return whether the path is a `Pipfile.lock`, or has one at its top."""
    return _file(source) is not None


def read(source: ImportSource) -> Draft:
    """Import a `Pipfile.lock`: the packages of `default`.

    Raises:
        SnapshotError: it is damaged.
    """
    file = _file(source)
    assert file is not None
    document = load_document(source, file, is_json=True)
    draft = Draft("Pipfile.lock", file)
    for name, entry in table(document, "default").items():
        if isinstance(entry, dict):
            _add_package(draft, source, name, entry)
    requires = table(table(document, "_meta"), "requires")
    draft.add_python(
        string(requires, "python_full_version") or string(requires, "python_version"), "_meta.requires"
    )
    draft.leave_rest(document, ("default", "_meta"), _UNUSED)
    return draft


def _file(source: ImportSource) -> str | None:
    top = [name for name in source.names if "/" not in name]
    return next((name for name in top if name == NAME or name.endswith(f"-{NAME}")), None)


def _add_package(draft: Draft, source: ImportSource, name: str, entry: dict[str, Any]) -> None:
    field, marker = f"default.{name}", string(entry, "markers")
    if string(entry, "git"):
        address, editable = (
            f"git+{string(entry, 'git')}@{string(entry, 'ref')}",
            entry.get("editable") is True,
        )
        if editable:
            add_direct(draft, name, f"{address}#egg={name}", field, editable=True)
        else:
            add_direct(draft, name, address, field, marker=marker)
    elif string(entry, "file"):
        add_direct(draft, name, string(entry, "file"), field, marker=marker)
    elif string(entry, "path"):
        add_directory(
            draft, source, name, "0", string(entry, "path"), field, editable=entry.get("editable") is True
        )
    elif string(entry, "version").startswith("=="):
        sums = [value for value in entry.get("hashes") or () if isinstance(value, str)]
        sha256 = [value.removeprefix("sha256:") for value in sums if value.startswith("sha256:")]
        add_pinned(draft, name, string(entry, "version").lstrip("="), field, marker=marker, hashes=sha256)
    else:
        draft.leave(field, "it has no version, no repository and no file")
