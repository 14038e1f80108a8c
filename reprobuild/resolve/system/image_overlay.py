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
from reprobuild.resolve.system.conflicts import clashes, twins
from reprobuild.resolve.system.image_packages import PresentPackage

_NOT_THERE = Artefact(filename="", sha256="", size=0)  # of packages of the image: they are not fetched


def kept(key: str, own: PresentPackage) -> Candidate:
    """Return a candidate for a package of the image.

    It has no file to fetch, and its needs are met.
    """
    return Candidate(
        key=key, name=own.name, version=own.version, architecture=own.architecture, essential=False, needs=(),
        provides=own.provides, file=_NOT_THERE, excludes=own.excludes, multi_arch=own.multi_arch,
    )  # fmt: skip


def outdated_by(
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
    before = {key: kept(key, own) for key, own in present.items()}
    now = {**before, **over}
    return _broken(before, now, present, index) | _excluded(now, index)


def _broken(
    before: Mapping[str, Candidate], now: Mapping[str, Candidate], present: Mapping[str, PresentPackage],
    index: SystemIndex,
) -> set[str]:  # fmt: skip
    """Return the image's packages that new versions break."""
    former, later = _by_name(before.values()), _by_name(now.values())

    def met(group: Group, named: Mapping[str, list[Candidate]], wanting: str) -> bool:
        return any(
            index.serves(relation, wanting, one) for relation in group for one in named.get(relation.name, ())
        )

    return {
        key for key, own in present.items()
        if now[key] is before[key] and any(
            met(group, former, own.architecture) and not met(group, later, own.architecture) for group in own.needs
        )
    }  # fmt: skip


def _by_name(candidates: Iterable[Candidate]) -> dict[str, list[Candidate]]:
    """Return the packages that have or provide each name."""
    found: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        for name in {candidate.name, *(given.name for given in candidate.provides)}:
            found.setdefault(name, []).append(candidate)
    return found


def _excluded(now: Mapping[str, Candidate], index: SystemIndex) -> set[str]:
    """Return the image's packages whose version alone conflicts."""
    found = set[str]()
    for clash in clashes(now.values(), index.architecture):
        own, other = (clash.other, clash.one) if clash.one.file.sha256 else (clash.one, clash.other)
        if all(list(clashes((one, other), index.architecture)) for one in _newer(own, index)):
            raise clash.error()
        found.add(own.key)
    for keys in twins(now):
        found |= _uneven([now[key] for key in keys], index)
    return found


def _newer(own: Candidate, index: SystemIndex) -> list[Candidate]:
    return [one for one in index.versions(own.key) if Version(one.version) > Version(own.version)]


def _uneven(same: list[Candidate], index: SystemIndex) -> set[str]:
    """Return the image's architectures older than the overlaid one.

    All are of one package.
    """
    most = max(same, key=lambda one: Version(one.version))
    less = [one for one in same if one.version != most.version]
    for one in less:
        if one.file.sha256 or all(other.version != most.version for other in index.versions(one.key)):
            raise LockError(
                f"{one.key} {one.version} and {most.key} {most.version} must have one version to be installed "
                f"together, and {index.label} has none for both",
                hint="give apt a source that has one, or choose another image with `--base`",
            )
    return {one.key for one in less}
