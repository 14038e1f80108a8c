"""Importer of `Pipfile.lock`.

Format: https://pipenv.pypa.io/en/stable/pipfile.html
"""

from __future__ import annotations

import posixpath
from typing import Any

from reprobuild.snapshot.importers.documents import load_document
from reprobuild.snapshot.importers.draft import Draft
from reprobuild.snapshot.importers.local_sources import add_directory, add_file, is_archive
from reprobuild.snapshot.importers.project_requirements import add_direct, add_pinned, leave_requirement
from reprobuild.snapshot.importers.source import ImportSource
from reprobuild.snapshot.importers.toml_documents import string, table

NAME = "Pipfile.lock"
_REPOSITORIES = ("git", "hg", "svn", "bzr")
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
        else:
            leave_requirement(draft, f"default.{name}", "it is no table of a package")
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
    field, marker, subdirectory = f"default.{name}", string(entry, "markers"), string(entry, "subdirectory")
    editable, hashes = entry.get("editable") is True, _hashes(entry)
    vcs = next((kind for kind in _REPOSITORIES if string(entry, kind)), "")
    file, place, version = string(entry, "file"), string(entry, "path"), string(entry, "version")
    if vcs:
        address = f"{vcs}+{string(entry, vcs)}@{string(entry, 'ref')}"
        add_direct(draft, name, address, field, marker=marker, editable=editable, subdirectory=subdirectory)
    elif file and "://" in file and not file.startswith("file://"):
        add_direct(draft, name, file, field, marker=marker, hashes=hashes, subdirectory=subdirectory)
    elif file or is_archive(place):
        add_file(
            draft, source, name, file or place, field, hashes=hashes, marker=marker, subdirectory=subdirectory
        )
    elif place:
        add_directory(
            draft, source, name, "0", posixpath.join(place, subdirectory), field, editable=editable,
            marker=marker,
        )  # fmt: skip
    elif version.startswith("=="):
        add_pinned(draft, name, version.lstrip("="), field, marker=marker, hashes=hashes)
    else:
        leave_requirement(draft, field, "it has no version, no repository and no file")


def _hashes(entry: dict[str, Any]) -> list[str]:
    hashes = entry.get("hashes")
    return [str(value) for value in hashes] if isinstance(hashes, list) else []
