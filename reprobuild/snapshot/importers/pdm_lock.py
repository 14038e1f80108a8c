"""Importer of `pdm.lock`.

Format: https://github.com/pdm-project/pdm, `src/pdm/project/lockfile`.
"""

from __future__ import annotations

import posixpath
from typing import Any

from reprobuild.snapshot.importers.draft import Draft
from reprobuild.snapshot.importers.local_sources import add_directory, add_file, is_archive
from reprobuild.snapshot.importers.project_requirements import add_direct, add_pinned, add_project_python
from reprobuild.snapshot.importers.source import ImportSource
from reprobuild.snapshot.importers.toml_documents import load_toml, string, table, tables

NAME = "pdm.lock"
_REPOSITORIES = ("git", "hg", "svn", "bzr")
_UNUSED = {"metadata": "the format, and ranges of Python; `--python` gives the one that ran"}


def recognises(source: ImportSource) -> bool:
    """Return whether the path is a `pdm.lock`, or has one at its top."""
    return _file(source) is not None


def read(source: ImportSource) -> Draft:
    """Import a `pdm.lock`: all packages of all locked groups.

    Raises:
        SnapshotError: it is damaged.
    """
    file = _file(source)
    assert file is not None
    document = load_toml(source.read(file), file)
    draft = Draft("pdm.lock", file)
    for package in tables(document, "package"):
        if package.get("extras"):  # the same distribution again, with the requirements of an extra
            draft.leave(f"package {string(package, 'name')}", "it repeats a package, with an extra")
        else:
            _add_package(draft, source, package)
    for target in tables(table(document, "metadata"), "targets")[:1]:
        draft.limit_python(string(target, "requires_python"))
    add_project_python(draft, source)
    draft.leave_rest(document, ("package",), _UNUSED)
    return draft


def _file(source: ImportSource) -> str | None:
    top = [name for name in source.names if "/" not in name]
    return next((name for name in top if name == NAME or name.endswith(f"-{NAME}")), None)


def _add_package(draft: Draft, source: ImportSource, package: dict[str, Any]) -> None:
    name, version, field = (
        string(package, "name"),
        string(package, "version"),
        f"package {string(package, 'name')}",
    )
    marker, subdirectory = string(package, "marker"), string(package, "subdirectory")
    hashes = [string(file, "hash") for file in tables(package, "files")]
    editable = package.get("editable") is True
    vcs, place = next((kind for kind in _REPOSITORIES if string(package, kind)), ""), string(package, "path")
    if vcs:
        revision = string(package, "revision")
        address = f"{vcs}+{string(package, vcs)}" + f"@{revision}" * bool(revision)
        add_direct(draft, name, address, field, marker=marker, editable=editable, subdirectory=subdirectory)
    elif string(package, "url"):
        url = string(package, "url")
        add_direct(draft, name, url, field, marker=marker, hashes=hashes, subdirectory=subdirectory)
    elif is_archive(place):
        add_file(draft, source, name, place, field, hashes=hashes, marker=marker, subdirectory=subdirectory)
    elif place:
        add_directory(
            draft, source, name, version, posixpath.join(place, subdirectory), field, editable=editable,
            marker=marker,
        )  # fmt: skip
    else:
        add_pinned(draft, name, version, field, marker=marker, hashes=hashes)
