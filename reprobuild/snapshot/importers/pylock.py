"""Importer of `pylock.toml` (PEP 751), read by `packaging`.

Format: https://packaging.python.org/en/latest/specifications/pylock-toml/
"""

from __future__ import annotations

from packaging.pylock import Package, Pylock, PylockUnsupportedVersionError, PylockValidationError

from reprobuild.errors import SnapshotError
from reprobuild.infra.display import display_text
from reprobuild.snapshot.importers.draft import Draft
from reprobuild.snapshot.importers.local_sources import add_directory
from reprobuild.snapshot.importers.project_requirements import (
    add_direct,
    add_pinned,
    add_project_python,
    hash_fragment,
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
    field = f"packages {package.name}"
    marker = str(package.marker or "")
    if package.vcs and package.vcs.url:
        address = f"{package.vcs.type}+{package.vcs.url}@{package.vcs.commit_id}"
        add_direct(draft, package.name, address, field, marker=marker)
    elif package.archive and package.archive.url:
        address = package.archive.url + hash_fragment(package.archive.hashes)
        add_direct(draft, package.name, address, field, marker=marker)
    elif package.directory:
        add_directory(
            draft, source, package.name, str(package.version or "0"), package.directory.path, field,
            editable=bool(package.directory.editable),
        )  # fmt: skip
    elif package.version is None:
        draft.leave(field, "it has no version, no repository and no archive")
    else:
        files = [*(package.wheels or ()), *([package.sdist] if package.sdist else ())]
        hashes = [file.hashes["sha256"] for file in files if "sha256" in file.hashes]
        add_pinned(draft, package.name, str(package.version), field, marker=marker, hashes=hashes)
