"""What a source tree needs to be built: the newest releases that its `pyproject.toml` allows.

No freeze names them, so each is a choice, made once and kept in the lock. PEP 518 gives the default.
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from packaging.metadata import parse_email
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from reprobuild.errors import BuildError, LockError
from reprobuild.guard import zips
from reprobuild.guard.names import HOSTILE
from reprobuild.lock import Artefact, Source, Wheel
from reprobuild.resolve.files import FileLists
from reprobuild.resolve.python import Target, newest
from reprobuild.store import Store

DEFAULT = ("setuptools>=40.8.0", "wheel")


def resolve_build_requires(
    sources: Iterable[Source],
    files: FileLists,
    target: Target,
    store: Store,
    fetch: Callable[[Artefact], None],
) -> tuple[Wheel, ...]:
    """Lock the wheels that the sources' builds need, and those that these need.

    Args:
        sources: trees in the store.
        fetch: brings one file into the store, so that its own needs can be read.

    Raises:
        LockError: a requirement cannot be read or met.
    """
    wheels: dict[str, Wheel] = {}
    waiting = [
        (_parse(text, source.name), source.name)
        for source in sources
        if source.installed
        for text in read_requires(source, store)
    ]
    waiting = [(requirement, asker) for requirement, asker in waiting if _applies(requirement, target)]
    together: dict[str, SpecifierSet] = {}  # all sources are built with the same wheels
    for requirement, _ in waiting:
        name = canonicalize_name(requirement.name)
        together[name] = together.get(name, SpecifierSet()) & requirement.specifier
    while waiting:
        requirement, asker = waiting.pop(0)
        name = canonicalize_name(requirement.name)
        if name not in wheels:
            asked = together.get(name, SpecifierSet()) & requirement.specifier
            wheels[name] = _lock(requirement, asked, asker, files, target)
            fetch(wheels[name].file)
            needs = [_parse(need, name) for need in _needs(wheels[name], store)]
            waiting += [(need, name) for need in needs if _applies(need, target)]
        elif not requirement.specifier.contains(wheels[name].version, prereleases=True):
            raise LockError(
                f"{asker} needs {requirement} to be built, and {name} {wheels[name].version} was chosen",
                hint=f"name {name} in the build-system.requires of the sources, with a version that suits all",
            )
    return tuple(wheels.values())


def _applies(requirement: Requirement, target: Target) -> bool:
    return not requirement.marker or requirement.marker.evaluate(_environment(target))


def read_requires(source: Source, store: Store) -> list[str]:
    """Return `build-system.requires` of the source's project, or the default of PEP 518."""
    table = read_pyproject(source, store).get("build-system", {})
    return [str(item) for item in table.get("requires", DEFAULT)]


def read_pyproject(source: Source, store: Store) -> dict[str, Any]:
    """Return the source's pyproject.toml as tables; empty where it has none."""
    member = "/".join(part for part in (source.subdirectory, "pyproject.toml") if part)
    with tarfile.open(store.verified(source.file.sha256, source.file.filename)) as tar:
        try:
            opened = tar.extractfile(member)
        except KeyError:
            return {}
        if opened is None:
            raise LockError(
                f"{source.name}: {member} is no file", hint="pip could not build it either; mend it"
            )
        try:
            tables: dict[str, Any] = msgspec.toml.decode(opened.read())
        except msgspec.DecodeError as err:
            raise LockError(
                f"{source.name}: {member}: {err}", hint="pip could not build it either; mend it"
            ) from None
    return tables


def _parse(text: str, asker: str) -> Requirement:
    try:
        return Requirement(text)
    except InvalidRequirement as err:
        raise LockError(
            f"{asker} needs {text!r} to be built: {err}", hint="mend its pyproject.toml"
        ) from None


def _lock(
    requirement: Requirement, asked: SpecifierSet, asker: str, files: FileLists, target: Target
) -> Wheel:
    found = newest(requirement.name, str(asked), files, target)
    if found is None:
        others = "" if asked == requirement.specifier else f" (all sources together: {asked})"
        raise LockError(
            f"{asker} needs {requirement} to be built{others}, and no index of this machine has a wheel of it",
            hint="check the name in its pyproject.toml, and pip's indexes",
        )
    version, file = found
    return Wheel(name=canonicalize_name(requirement.name), version=version, role="build", file=file)


def _needs(wheel: Wheel, store: Store) -> list[str]:
    origin = f"the wheel {wheel.file.filename}"
    with zips.open_zip(store.verified(wheel.file.sha256, wheel.file.filename), origin) as (archive, members):
        found = [info for name, info in members.items() if name.endswith(".dist-info/METADATA")]
        try:
            raw, _ = parse_email(zips.read_text(archive, found[0], origin))
        except (IndexError, *zips.UNREADABLE):
            raise BuildError(f"{origin} has no METADATA that can be read", hint=HOSTILE) from None
    return [need for need in raw.get("requires_dist", []) if "extra ==" not in need]


def _environment(target: Target) -> dict[str, str]:
    minor = ".".join(target.python.split(".")[:2])
    return {
        "python_version": minor, "python_full_version": target.python, "implementation_name": "cpython",
        "platform_python_implementation": "CPython", "sys_platform": "linux", "os_name": "posix",
        "platform_system": "Linux", "platform_machine": target.machine, "extra": "",
    }  # fmt: skip
