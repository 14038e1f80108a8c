"""Packages that satisfy a dependency, and preferences between versions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from debian.debian_support import Version
from msgspec import Struct

from reprobuild.ecosystems.apt.index import Candidate, SystemIndex, newest_candidate
from reprobuild.ecosystems.apt.relations import Group, Relation
from reprobuild.lock.system import dpkg_name

# Both give a merged /usr; the bootstrap makes it so, and `usrmerge` would need a second Perl in vain.
_PREFERRED = {"usrmerge": "usr-is-merged"}
_NATIVE_UPDATE = re.compile(r"([+~]deb[0-9]+u[0-9]+|\+b[0-9]+|\+nmu[0-9]+)+$")


class Dependency(Struct, frozen=True):
    """A dependency, and the architecture of its package."""

    group: Group
    architecture: str

    def __str__(self) -> str:
        return " | ".join(map(str, self.group))


# The packages that satisfy a dependency, in order of preference: each key with the matching versions.
Fulfilment = tuple[tuple[str, tuple[Candidate, ...]], ...]


class Ways:
    """The ways to satisfy each dependency with an index's packages."""

    def __init__(self, index: SystemIndex) -> None:
        self._index = index
        self._groups: dict[Dependency, Fulfilment] = {}
        self._relations: dict[tuple[Relation, str], Fulfilment] = {}

    def list_ways(self, need: Dependency) -> Fulfilment:
        """Return the ways in order of preference.

        They are ordered by alternative, then own names before providers, native before foreign.
        """
        fulfilment = self._groups.get(need)
        if fulfilment is None:
            fulfilment = tuple(
                package
                for relation in need.group
                for package in self._list_relation_ways(relation, need.architecture)
            )
            self._groups[need] = fulfilment
        return fulfilment

    def _list_relation_ways(self, relation: Relation, wanting: str) -> Fulfilment:
        key = (relation, wanting)
        if key not in self._relations:
            ways = ((name, self._versions(name, relation, wanting)) for name in self._keys(relation.name))
            self._relations[key] = tuple(package for package in ways if package[1])
        return self._relations[key]

    def _keys(self, name: str) -> Iterable[str]:
        native = self._index.architecture
        names = [_PREFERRED[name], name] if name in _PREFERRED else [name]
        foreign = [dpkg_name(name, architecture, native) for architecture in self._index.foreign]
        return dict.fromkeys((*names, *foreign, *self._index.providers(name)))

    def _versions(self, key: str, relation: Relation, wanting: str) -> tuple[Candidate, ...]:
        stands_in = _PREFERRED.get(relation.name) == key
        return tuple(
            candidate
            for candidate in self._index.versions(key)
            if stands_in or self._index.serves(relation, wanting, candidate)
        )


def strip_revision(version: str) -> str:
    """Return a Debian version without its revision, with its epoch.

    A native package has no revision; the suffixes of stable updates, binary rebuilds and non-maintainer uploads
    (`+deb12u11`, `+b1`, `+nmu1`) count as one.
    """
    return version.rpartition("-")[0] or _NATIVE_UPDATE.sub("", version)


def is_later_revision(version: str, captured: str) -> bool:
    """Return whether a version is a later revision of the captured one.

    Both have the same upstream version.
    """
    return strip_revision(version) == strip_revision(captured) and Version(version) > Version(captured)


def describe_other_version(taken: str, captured: str, versions: Iterable[Candidate]) -> str:
    """Describe the version that the image has in place of the captured one.

    It is not a later revision of the captured one.

    Args:
        taken: the version of the image.
        captured: the captured version.
        versions: all that the sources have.
    """
    has_later = any(is_later_revision(candidate.version, captured) for candidate in versions)
    age = "a later" if Version(taken) > Version(captured) else "an earlier"
    part = "revision" if strip_revision(taken) == strip_revision(captured) else "upstream version"
    return (
        f"no later revision of the same upstream version {'fits' if has_later else 'is there'}; "
        f"the image has {taken}, {age} {part}"
    )


def sort_by_preference(versions: Sequence[Candidate], captured: str | None) -> list[Candidate]:
    """Return the versions of a package, the best first.

    The captured version; later revisions of the same upstream version, the nearest first; then as apt would: the
    newest of an automatic suite, and the others, newest first.

    Args:
        versions: newest first.
        captured: the captured version; None for a package that was not captured.
    """
    same = [c for c in versions if c.version == captured]
    later = [c for c in reversed(versions) if captured is not None and is_later_revision(c.version, captured)]
    rest = [c for c in versions if c not in same and c not in later]
    first = newest_candidate(rest)
    return [*same, *later, *([first] if first else ()), *(c for c in rest if c is not first)]


def pick_version(key: str, captured: str | None, index: SystemIndex) -> Candidate | None:
    """Return the version of an unrestricted package, or None.

    It is None if the index has no version.
    """
    return next(iter(sort_by_preference(index.versions(key), captured)), None)
