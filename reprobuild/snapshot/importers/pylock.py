"""Importer of `pylock.toml` (PEP 751), read by `packaging`.

Format: https://packaging.python.org/en/latest/specifications/pylock-toml/
"""

from __future__ import annotations

import posixpath

from packaging.pylock import (
    Package,
    PackageArchive,
    PackageSdist,
    PackageWheel,
    Pylock,
    PylockUnsupportedVersionError,
    PylockValidationError,
)

from reprobuild.errors import SnapshotError
from reprobuild.infra.display import display_text
from reprobuild.snapshot.importers.draft import Draft
from reprobuild.snapshot.importers.local_sources import add_directory, add_file
from reprobuild.snapshot.importers.project_requirements import (
    add_direct,
    add_pinned,
    add_project_python,
    leave_requirement,
)
from reprobuild.snapshot.importers.source import ImportSource
from reprobuild.snapshot.importers.toml_documents import load_toml

_UNUSED = {
    "lock-version": "the format", "created-by": "the program that wrote it", "environments": "each line has its marker",
    "requires-python": "a range of Python; `--python` gives the one that ran",
    "extras": "lines of extras have markers", "dependency-groups": "lines of groups have markers",
    "default-groups": "lines of groups have markers", "tool": "data of another tool",
}  # fmt: skip


def recognises(source: ImportSource) -> bool:
    """Return whether the path is a `pylock.toml` or `pylock.NAME.toml`, or has one at its top."""
    return _file(source) is not None


def read(source: ImportSource) -> Draft:
    """Import a `pylock.toml`.

    Raises:
        SnapshotError: it is not a valid one.
    """
    file = _file(source)
    assert file is not None
    document = load_toml(source.read(file), file)
    try:
        lock = Pylock.from_dict(document)
    except (PylockValidationError, PylockUnsupportedVersionError, ValueError, TypeError) as err:
        raise SnapshotError(
            f"{display_text(file)} is not a lock of PEP 751: {display_text(str(err))}",
            hint="a list of requirements is named requirements.txt; or export the lock again",
        ) from None
    draft = Draft("pylock.toml", file)
    for package in lock.packages:
        _add_package(draft, source, package)
    draft.limit_python(str(lock.requires_python or ""))
    add_project_python(draft, source)
    draft.leave_rest(document, ("packages",), _UNUSED)
    return draft


def _file(source: ImportSource) -> str | None:
    top = [name for name in source.names if "/" not in name]
    plain = [
        name
        for name in top
        if name == "pylock.toml" or (name.startswith("pylock.") and name.endswith(".toml"))
    ]
    marked = [name for name in top if name.endswith("-pylock.toml")]
    return next(iter([*plain, *marked]), None)


def _add_package(draft: Draft, source: ImportSource, package: Package) -> None:
    field, name = f"packages {package.name}", package.name
    marker = str(package.marker or "")
    vcs, archive, directory = package.vcs, package.archive, package.directory
    if vcs and vcs.url:
        address = f"{vcs.type}+{vcs.url}@{vcs.commit_id}"
        add_direct(draft, name, address, field, marker=marker, subdirectory=vcs.subdirectory or "")
    elif archive and (archive.url or archive.path):
        hashes, subdirectory = _hashes(archive), archive.subdirectory or ""
        if archive.url:
            add_direct(
                draft, name, archive.url, field, marker=marker, hashes=hashes, subdirectory=subdirectory
            )
        else:
            place = archive.path or ""
            add_file(
                draft, source, name, place, field, hashes=hashes, marker=marker, subdirectory=subdirectory
            )
    elif directory:
        add_directory(
            draft, source, name, str(package.version or "0"),
            posixpath.join(directory.path, directory.subdirectory or ""), field,
            editable=bool(directory.editable), marker=marker,
        )  # fmt: skip
    else:
        _add_files(draft, source, package, field, marker)


def _add_files(draft: Draft, source: ImportSource, package: Package, field: str, marker: str) -> None:
    """Add a package by the files of its version: those of an index, or one beside the lock."""
    files = [*(package.wheels or ()), *([package.sdist] if package.sdist else ())]
    places = [file.path for file in files if file.path and not file.url]
    if package.vcs:
        leave_requirement(draft, field, "its repository is a directory, which only its machine has")
    elif len(places) == len(files) == 1:
        hashes = _hashes(files[0])
        add_file(draft, source, package.name, places[0], field, hashes=hashes, marker=marker)
    elif places:
        leave_requirement(
            draft, field, "it has several files beside the lock: write a line for the one that ran"
        )
    elif package.version is None:
        leave_requirement(draft, field, "it has no version, no repository and no archive")
    else:
        sums = [value for file in files for value in _hashes(file)]
        add_pinned(draft, package.name, str(package.version), field, marker=marker, hashes=sums)


def _hashes(file: PackageArchive | PackageWheel | PackageSdist) -> list[str]:
    return [f"{algorithm}:{value}" for algorithm, value in file.hashes.items()]
