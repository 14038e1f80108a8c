"""Importers of `pixi.lock` and `conda-lock.yml`.

Formats: https://pixi.prefix.dev/latest/workspace/lockfile/ and https://conda.github.io/conda-lock/. py-rattler reads
both, but in native code without bounds: these files come from others, so the bounded YAML reader is used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from reprobuild.errors import SnapshotError
from reprobuild.infra.display import display_text
from reprobuild.snapshot.importers.clean_lines import LONGEST_ROW
from reprobuild.snapshot.importers.documents import load_document
from reprobuild.snapshot.importers.draft import Draft
from reprobuild.snapshot.importers.local_sources import add_directory, add_file, is_archive
from reprobuild.snapshot.importers.project_requirements import add_direct, add_pinned, leave_requirement
from reprobuild.snapshot.importers.source import ImportSource
from reprobuild.snapshot.importers.toml_documents import string, table, tables

PIXI, CONDA_LOCK = "pixi.lock", "conda-lock.yml"
_UNUSED = {
    "version": "the format",
    "platforms": "what the machine of an environment must have",
    "options": "how pixi locks",
}
EXPLICIT = "conda-explicit.txt"
PLATFORMS = ("linux-64", "linux-aarch64")  # the first that the lock has
_EXPLICIT_LINE = re.compile(r"[a-z][a-z0-9+.-]{0,20}://[!\"$-~]+(?:#(?:[0-9a-f]{32}|sha256:[0-9a-f]{64}))?")
# The layout of PyPI's files and of its mirrors, whose index has them, by the hash of their content
_INDEX_FILE = re.compile(r"https://[^/]+/packages/[0-9a-f]{2}/[0-9a-f]{2}/[0-9a-f]{60}/[^/]+")


def recognises_pixi(source: ImportSource) -> bool:
    """Return whether the path is a `pixi.lock`, or has one at its top."""
    return _file(source, PIXI) is not None


def recognises_conda_lock(source: ImportSource) -> bool:
    """Return whether the path is a `conda-lock.yml`, or has one at its top."""
    return _file(source, CONDA_LOCK) is not None


def read_pixi(source: ImportSource) -> Draft:
    """Import the environment `default` of a `pixi.lock`, for Linux.

    Raises:
        SnapshotError: it is damaged, or has no environment for Linux.
    """
    file = _file(source, PIXI)
    assert file is not None
    document = load_document(source, file)
    draft = Draft("pixi.lock", file)
    environments = table(document, "environments")
    name = "default" if "default" in environments else next(iter(environments), "")
    platforms = table(table(environments, name), "packages")
    machines = {string(row, "name"): string(row, "subdir") for row in tables(document, "platforms")}
    platform = _choose_platform({other: machines.get(other) or other for other in platforms}, file)
    packages = _pixi_packages(document)
    for number, entry in enumerate(tables(platforms, platform)):
        kind = next((kind for kind in ("conda", "pypi") if string(entry, kind)), "")
        address = string(entry, kind)
        package = packages.get(address, {})
        field = f"environments.{name}.packages.{platform}[{number}]"
        if len(address) > LONGEST_ROW:  # aliases can repeat one
            leave_requirement(draft, field, f"it has more than {LONGEST_ROW} characters")
        elif kind == "conda":
            _add_conda(draft, address, string(package, "md5"), string(package, "sha256"), field)
        elif kind == "pypi":
            _add_pypi(draft, source, package, address, field)
        else:
            leave_requirement(draft, field, "it is built from source, which no snapshot of conda names")
    for other in platforms:
        if other != platform:
            draft.leave(f"environments.{name}.packages.{other}", f"the platform {platform} is imported")
    for other in environments:
        if other != name:
            draft.leave(f"environments.{other}", f"the environment {name} is imported")
    draft.leave_rest(document, ("environments", "packages"), _UNUSED)
    return draft


def read_conda_lock(source: ImportSource) -> Draft:
    """Import the main packages of a `conda-lock.yml`, for Linux.

    Raises:
        SnapshotError: it is damaged, or has no package for Linux.
    """
    file = _file(source, CONDA_LOCK)
    assert file is not None
    document = load_document(source, file)
    draft = Draft("conda-lock.yml", file)
    packages = tables(document, "package")
    stated = {string(package, "platform") for package in packages}
    platform = _choose_platform({other: other for other in stated}, file)
    for number, package in enumerate(packages):
        if string(package, "platform") != platform:
            continue
        field, hashes = f"package[{number}]", table(package, "hash")
        if len(string(package, "url")) > LONGEST_ROW:  # aliases can repeat one
            leave_requirement(draft, field, f"it has more than {LONGEST_ROW} characters")
        elif package.get("optional") is True or string(package, "category") not in ("", "main"):
            draft.leave(field, "it belongs to another category than main")
        elif string(package, "manager") == "pip":
            wheel = {
                "name": string(package, "name"),
                "version": string(package, "version"),
                "sha256": string(hashes, "sha256"),
                "md5": string(hashes, "md5"),
            }
            _add_pypi(draft, source, wheel, string(package, "url"), field)
        else:
            _add_conda(draft, string(package, "url"), string(hashes, "md5"), string(hashes, "sha256"), field)
    draft.leave_rest(document, ("package",), {"version": "the format", "metadata": "how the lock was made"})
    return draft


def _file(source: ImportSource, file_name: str) -> str | None:
    top = [name for name in source.names if "/" not in name]
    return next((name for name in top if name == file_name or name.endswith(f"-{file_name}")), None)


def _choose_platform(platforms: Mapping[str, str], file: str) -> str:
    """Return the platform to import: of several for one machine, the one that has no name of its own, or the first.

    Args:
        platforms: the machine of each platform, such as `linux-64`, by its name; version 7 of pixi has own names.
        file: the lock.

    Raises:
        SnapshotError: none is for Linux.
    """
    for machine in PLATFORMS:
        names = [name for name in platforms if platforms[name] == machine]
        if names:
            return machine if machine in names else names[0]
    stated = display_text(", ".join(sorted(platforms)) or "no platform")
    raise SnapshotError(
        f"{display_text(file)} has no environment for Linux, only for {stated}",
        hint="add linux-64 to its platforms, and lock again",
    )


def _pixi_packages(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the packages of the lock by their address.

    Version 6 has the address under `conda` or `pypi`, version 5 and older under `url` or `path` with a `kind`.
    """
    by_address = {}
    for package in tables(document, "packages"):
        keys = ("conda", "pypi") if not string(package, "kind") else ("url", "path")
        address = next((string(package, key) for key in keys if string(package, key)), "")
        by_address[address] = package
    return by_address


def _add_conda(draft: Draft, address: str, md5: str, sha256: str, field: str) -> None:
    line = address + (f"#sha256:{sha256}" if sha256 else f"#{md5}" * bool(md5))
    if not _EXPLICIT_LINE.fullmatch(line):
        leave_requirement(draft, field, "its address or its hash is not valid")
        return
    if not draft.has(EXPLICIT):
        draft.add(EXPLICIT, "@EXPLICIT", "the platform")
    draft.add(EXPLICIT, line, field)


def _add_pypi(draft: Draft, source: ImportSource, package: dict[str, Any], address: str, field: str) -> None:
    name, version = string(package, "name"), str(package.get("version") or "")
    hashes = [f"{kind}:{string(package, kind)}" for kind in ("sha256", "md5") if string(package, kind)]
    if not name:
        leave_requirement(draft, field, "it has no name")
    elif address.startswith("git+"):
        bare, _, commit = address.partition("#")
        repository, _, query = bare.partition("?")
        subdirectory = parse_qs(query).get("subdirectory", [""])[0]
        add_direct(draft, name, f"{repository}@{commit}", field, subdirectory=subdirectory)
    elif "://" not in address and is_archive(address):
        add_file(draft, source, name, address, field, hashes=hashes)
    elif "://" not in address:
        editable = package.get("editable") is True
        add_directory(draft, source, name, version or "0", address, field, editable=editable)
    elif _INDEX_FILE.fullmatch(address) and version:
        add_pinned(draft, name, version, field, hashes=hashes)
    else:
        add_direct(draft, name, address, field, hashes=hashes)
