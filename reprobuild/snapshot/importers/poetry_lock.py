"""Importer of `poetry.lock`, versions 1 and 2.

Format: https://github.com/python-poetry/poetry, `src/poetry/packages/locker.py`. Version 2.1 has the marker of each
package that is not for all environments; older ones only have those of dependencies.
"""

from __future__ import annotations

import contextlib
import re
from typing import Any

from packaging.utils import canonicalize_name

from reprobuild.errors import SnapshotError
from reprobuild.snapshot.importers.draft import Draft
from reprobuild.snapshot.importers.local_sources import add_directory, add_file
from reprobuild.snapshot.importers.poetry_markers import infer_markers
from reprobuild.snapshot.importers.project_requirements import (
    add_direct,
    add_pinned,
    add_project_python,
    read_project_file,
)
from reprobuild.snapshot.importers.source import ImportSource
from reprobuild.snapshot.importers.toml_documents import load_toml, string, table, tables

NAME = "poetry.lock"
_VERSION = re.compile(r"(\d{1,3})\.(\d{1,3})")
_UNUSED = {
    "metadata": "the format, and a range of Python; `--python` gives the one that ran",
    "extras": "poetry installs no extra by default",
}


def recognises(source: ImportSource) -> bool:
    """Return whether the path is a `poetry.lock`, or has one at its top."""
    return _file(source) is not None


def read(source: ImportSource) -> Draft:
    """Import a `poetry.lock`: all packages that `poetry install` installs by default.

    Raises:
        SnapshotError: it is damaged.
    """
    file = _file(source)
    assert file is not None
    document = load_toml(source.read(file), file)
    packages = tables(document, "package")
    inferred = infer_markers(packages, _find_project(source, file)) if _lacks_markers(document) else {}
    hashes = table(table(document, "metadata"), "files")  # of version 1
    draft = Draft("poetry.lock", file)
    for package in packages:
        name, field = string(package, "name"), f"package {string(package, 'name')}"
        if package.get("optional") is True:
            draft.leave(field, "it belongs to an extra, which poetry does not install by default")
            continue
        marker = _own_marker(package) or inferred.get(str(canonicalize_name(name)), "")
        files = [*tables(package, "files"), *tables({"files": hashes.get(name)}, "files")]
        _add_package(draft, source, package, field, marker, files)
    draft.limit_python(string(table(document, "metadata"), "python-versions"))
    add_project_python(draft, source)
    draft.leave_rest(document, ("package",), _UNUSED)
    return draft


def _file(source: ImportSource) -> str | None:
    top = [name for name in source.names if "/" not in name]
    return next((name for name in top if name == NAME or name.endswith(f"-{NAME}")), None)


def _add_package(
    draft: Draft, source: ImportSource, package: dict[str, Any], field: str, marker: str, files: list[dict[str, Any]]
) -> None:  # fmt: skip
    name, version = string(package, "name"), string(package, "version")
    origin = table(package, "source")
    kind, url, subdirectory = string(origin, "type"), string(origin, "url"), string(origin, "subdirectory")
    hashes = [string(file, "hash") for file in files]
    if kind in ("git", "hg", "svn"):
        address = f"{kind}+{url}@{string(origin, 'resolved_reference')}"
        add_direct(draft, name, address, field, marker=marker, subdirectory=subdirectory)
    elif kind == "url":
        add_direct(draft, name, url, field, marker=marker, hashes=hashes, subdirectory=subdirectory)
    elif kind == "directory":
        editable = package.get("develop") is True
        add_directory(draft, source, name, version, url, field, editable=editable, marker=marker)
    elif kind == "file":
        add_file(draft, source, name, url, field, hashes=hashes, marker=marker, subdirectory=subdirectory)
    else:
        add_pinned(draft, name, version, field, marker=marker, hashes=hashes)


def _lacks_markers(document: dict[str, Any]) -> bool:
    """Return whether a lock is older than version 2.1, from which a package without a marker is one for all."""
    version = _VERSION.match(string(table(document, "metadata"), "lock-version"))
    return version is None or (int(version[1]), int(version[2])) < (2, 1)


def _find_project(source: ImportSource, file: str) -> dict[str, Any]:
    """Return the `pyproject.toml` beside a lock; empty without one that can be read."""
    name = file.removesuffix(NAME) + "pyproject.toml"
    if not source.adopt(name):
        return {}
    with contextlib.suppress(SnapshotError):
        return load_toml(read_project_file(source, name), name)
    return {}


def _own_marker(package: dict[str, Any]) -> str:
    """Return the marker of a package in a lock of version 2.1, for all its groups."""
    stated = package.get("markers")
    if isinstance(stated, str):
        return stated
    by_group = list(stated.values()) if isinstance(stated, dict) else []
    texts = [text for text in by_group if isinstance(text, str)]
    complete = len(texts) == len(by_group) == len(package.get("groups") or by_group)
    return " or ".join(f"({text})" for text in texts) if complete else ""
