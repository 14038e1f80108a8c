"""Effects of installing packages over an image.

They are broken packages of the image, and conflicts that dpkg would refuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from debian.debian_support import Version

from reprobuild.ecosystems.apt.index import Candidate, SystemIndex
from reprobuild.ecosystems.apt.relations import Group
from reprobuild.errors import LockError
from reprobuild.lock.system import Artefact
from reprobuild.resolve.system.conflicts import find_clashes, find_multiarch_keys
from reprobuild.resolve.system.image_packages import PresentPackage

_NOT_THERE = Artefact(filename="", sha256="", size=0)  # of packages of the image: they are not fetched


def make_image_candidate(key: str, package: PresentPackage) -> Candidate:
    """Return a candidate for a package of the image.

    It has no file to fetch, and its needs are met.
    """
    return Candidate(
        key=key, name=package.name, version=package.version, architecture=package.architecture, essential=False,
        needs=(), provides=package.provides, file=_NOT_THERE, excludes=package.excludes, multi_arch=package.multi_arch,
    )  # fmt: skip


def find_outdated(
    over: Mapping[str, Candidate], present: Mapping[str, PresentPackage], index: SystemIndex
) -> set[str]:
    """Return the image's packages that must get another version.

    Others can then be installed over the image.

    They need a replaced package, by its name or by a provided name; or they and the others exclude each other, and a
    newer version of the archive does not.

    Args:
        over: the packages over the image, by key.
        present: the packages of the image, by key.
        index: of the image's release, without the image's own.

    Raises:
        LockError: two exclude each other in every version.
    """
    before = {key: make_image_candidate(key, package) for key, package in present.items()}
    now = {**before, **over}
    return _find_broken(before, now, present, index) | _find_excluded(now, index)


def _find_broken(
    before: Mapping[str, Candidate], now: Mapping[str, Candidate], present: Mapping[str, PresentPackage],
    index: SystemIndex,
) -> set[str]:  # fmt: skip
    """Return the image's packages that new versions break."""
    former, later = _candidates_by_name(before.values()), _candidates_by_name(now.values())

    def met(group: Group, named: Mapping[str, list[Candidate]], wanting: str) -> bool:
        return any(
            index.serves(relation, wanting, candidate)
            for relation in group
            for candidate in named.get(relation.name, ())
        )

    return {
        key for key, package in present.items()
        if now[key] is before[key] and any(
            met(group, former, package.architecture) and not met(group, later, package.architecture)
            for group in package.needs
        )
    }  # fmt: skip


def _candidates_by_name(candidates: Iterable[Candidate]) -> dict[str, list[Candidate]]:
    """Return the packages that have or provide each name."""
    by_name: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        for name in {candidate.name, *(relation.name for relation in candidate.provides)}:
            by_name.setdefault(name, []).append(candidate)
    return by_name


def _find_excluded(now: Mapping[str, Candidate], index: SystemIndex) -> set[str]:
    """Return the image's packages whose version alone conflicts."""
    result = set[str]()
    for clash in find_clashes(now.values(), index.architecture):
        candidate, other = (clash.other, clash.one) if clash.one.file.sha256 else (clash.one, clash.other)
        if all(
            list(find_clashes((newer, other), index.architecture))
            for newer in _newer_candidates(candidate, index)
        ):
            raise clash.error()
        result.add(candidate.key)
    for keys in find_multiarch_keys(now):
        result |= _find_older_architectures([now[key] for key in keys], index)
    return result


def _newer_candidates(candidate: Candidate, index: SystemIndex) -> list[Candidate]:
    return [
        other
        for other in index.versions(candidate.key)
        if Version(other.version) > Version(candidate.version)
    ]


def _find_older_architectures(same: list[Candidate], index: SystemIndex) -> set[str]:
    """Return the image's architectures older than the overlaid one.

    All are of one package.
    """
    most = max(same, key=lambda candidate: Version(candidate.version))
    less = [candidate for candidate in same if candidate.version != most.version]
    for candidate in less:
        if candidate.file.sha256 or all(
            other.version != most.version for other in index.versions(candidate.key)
        ):
            raise LockError(
                f"{candidate.key} {candidate.version} and {most.key} {most.version} must have one version "
                f"to be installed together, and {index.label} has none for both",
                hint="give apt a source that has one, or choose another image with `--base`",
            )
    return {candidate.key for candidate in less}
