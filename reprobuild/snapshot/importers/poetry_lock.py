"""Importer of `poetry.lock`, versions 1 and 2.

Format: https://github.com/python-poetry/poetry, `src/poetry/packages/locker.py`. Version 2.1 has the marker of each
package; older ones only have those of dependencies, from which the marker follows where each dependent has one.
"""

from __future__ import annotations

from typing import Any

from packaging.utils import canonicalize_name

from reprobuild.snapshot.importers.draft import LONGEST_ROW, Draft
from reprobuild.snapshot.importers.local_sources import add_directory
from reprobuild.snapshot.importers.project_requirements import add_direct, add_pinned, add_project_python
from reprobuild.snapshot.importers.source import ImportSource
from reprobuild.snapshot.importers.toml_documents import load_toml, string, table, tables

NAME = "poetry.lock"
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
    inferred = _infer_markers(packages)
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
    kind, url = string(origin, "type"), string(origin, "url")
    if kind == "git":
        subdirectory = string(origin, "subdirectory")
        address = f"git+{url}@{string(origin, 'resolved_reference')}"
        fragment = f"#subdirectory={subdirectory}" * bool(subdirectory)
        add_direct(draft, name, address + fragment, field, marker=marker)
    elif kind == "url":
        add_direct(draft, name, url, field, marker=marker)
    elif kind in ("directory", "file"):
        editable = kind == "directory" and package.get("develop") is True
        add_directory(draft, source, name, version, url, field, editable=editable)
    else:
        sums = (string(file, "hash") for file in files)
        sha256 = [value.removeprefix("sha256:") for value in sums if value.startswith("sha256:")]
        add_pinned(draft, name, version, field, marker=marker, hashes=sha256)


def _own_marker(package: dict[str, Any]) -> str:
    """Return the marker of a package in a lock of version 2.1, for all its groups."""
    stated = package.get("markers")
    if isinstance(stated, str):
        return stated
    by_group = list(stated.values()) if isinstance(stated, dict) else []
    texts = [text for text in by_group if isinstance(text, str)]
    complete = len(texts) == len(by_group) == len(package.get("groups") or by_group)
    return " or ".join(f"({text})" for text in texts) if complete else ""


def _infer_markers(packages: list[dict[str, Any]]) -> dict[str, str]:
    """Return the marker of each package whose dependents all have one on it, by canonical name.

    A package without dependents is one that the project asks for. Its own marker is only in `pyproject.toml`. One that
    is too long for a line is cut short, so that no line has it: packages can repeat a name.
    """
    edges: dict[str, list[str]] = {}
    for package in packages:
        for name, constraint in table(package, "dependencies").items():
            for entry in constraint if isinstance(constraint, list) else [constraint]:
                optional = isinstance(entry, dict) and entry.get("optional") is True
                if not optional:
                    edges.setdefault(str(canonicalize_name(name)), []).append(string(entry, "markers"))
    return {
        name: " or ".join(f"({marker})" for marker in dict.fromkeys(markers))[: LONGEST_ROW + 1]
        for name, markers in edges.items()
        if all(markers)
    }
