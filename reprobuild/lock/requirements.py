"""Unmet requirements between a lock's distributions.

pip would warn of them, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from reprobuild.lock.model import Lock
from reprobuild.lock.python import Wheel
from reprobuild.snapshot.file_kinds import field_of
from reprobuild.snapshot.parsers.conda_names import find_pypi_name

MOST_SHOWN = 20
# The most versions of one name to compare a requirement with; an image has one, with conda's two.
MOST_VERSIONS = 20
# `pip freeze` leaves out pip and, before Python 3.12, the others, too: the captured environment may have had them.
UNLISTED = ("distribute", "pip", "setuptools", "wheel")


def find_conflicts(lock: Lock) -> tuple[str, ...]:
    """Return a sentence for each unmet requirement of locked wheels.

    The sentences are sorted.

    A freeze is used as it is: a captured conflict also worked in the original environment, so it is not an error. The
    version of a project that is not built yet is unknown, and counts as fitting.
    """
    versions = _locked_versions(lock)
    wheels = [wheel for wheel in lock.wheels if wheel.role == "environment"]
    return tuple(
        sorted(
            {
                sentence
                for wheel in wheels
                for text in wheel.requires
                for sentence in _explain_unmet(wheel, text, versions)
            }
        )
    )


def find_missing_names(lock: Lock) -> set[str]:
    """Return the required names that the lock does not have.

    Names that no freeze lists are left out.
    """
    wheels = [wheel for wheel in lock.wheels if wheel.role == "environment"]
    requirements = [read_requirement(text) for wheel in wheels for text in wheel.requires]
    names = {
        str(canonicalize_name(requirement.name)) for requirement in requirements if requirement is not None
    }
    return names - _locked_versions(lock).keys() - set(UNLISTED)


def shorten_conflicts(sentences: Sequence[str]) -> list[str]:
    """Return the first conflicts for a terminal, and the rest's number."""
    more = len(sentences) - MOST_SHOWN
    return [
        *sentences[:MOST_SHOWN],
        *([f"and {more} more requirements that are not met"] if more > 0 else []),
    ]


def read_requirement(text: str) -> Requirement | None:
    """Return a parsed requirement of `Wheel.requires`, or None if invalid."""
    try:
        return Requirement(text)
    except (InvalidRequirement, RecursionError):
        return None


def _locked_versions(lock: Lock) -> dict[str, set[str]]:
    """Return each distribution's locked versions, by its PEP 503 name.

    The set is empty if the version is not known.
    """
    versions: dict[str, set[str]] = {}
    # Debian's packages and those of an image's own Python have a line in the freeze, but no file here.
    for ruling in lock.rulings:
        of_system = ruling.outcome == "in base" or ruling.kind == "system-version"
        if field_of(ruling.file) == "requirements" and of_system:
            versions.setdefault(str(canonicalize_name(ruling.subject)), set())
    for source in lock.sources:
        versions.setdefault(str(canonicalize_name(source.name)), set())
    wheels = [wheel for wheel in lock.wheels if wheel.role == "environment"]
    locked = [(distribution.name, distribution.version) for distribution in (*wheels, *lock.built_wheels)]
    for name, version in (
        *locked,
        *((distribution.name, distribution.version) for distribution in lock.sdists),
    ):
        versions.setdefault(str(canonicalize_name(name)), set()).add(version)
    for package in lock.conda:
        for name in {find_pypi_name(package.name), *package.distributions}:
            versions.setdefault(name, set()).add(package.version)
    return versions


def _explain_unmet(wheel: Wheel, text: str, versions: dict[str, set[str]]) -> Iterator[str]:
    requirement = read_requirement(text)
    asker = f"{wheel.name} {wheel.version}"
    if requirement is None:
        yield f"{asker} requires `{text}`, which is no requirement that can be read"
        return
    name = str(canonicalize_name(requirement.name))
    if name not in versions:
        hidden = "; `pip freeze` may have left it out" if name in UNLISTED else ""
        yield f"{asker} requires {text}, and the image has no {name}{hidden}"
        return
    if len(versions[name]) > MOST_VERSIONS:
        yield f"{asker} requires {text}, and the image has {len(versions[name])} versions of {name}"
        return
    candidates = sorted(versions[name])
    if candidates and not any(_version_fits(requirement, version) for version in candidates):
        yield f"{asker} requires {text}, and the image has {name} {', '.join(candidates)}"


def _version_fits(requirement: Requirement, version: str) -> bool:
    try:
        return requirement.specifier.contains(Version(version), prereleases=True)
    except InvalidVersion:
        return True  # conda's versions need not be Python's
