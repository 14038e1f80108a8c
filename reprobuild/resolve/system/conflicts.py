"""Packages that dpkg refuses to install together."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterable, Iterator

from msgspec import Struct

from reprobuild.ecosystems.apt.architectures import serves
from reprobuild.ecosystems.apt.index import Candidate
from reprobuild.ecosystems.apt.relations import Relation
from reprobuild.errors import LockError

ANOTHER_IMAGE = "choose another image with `--base`, since nothing of an image is removed"


class Clash(Struct, frozen=True, kw_only=True):
    """Two packages that exclude each other.

    `one` excludes `other`, by a relation of its Conflicts or Breaks.

    Without a relation they are one package of two architectures that cannot be installed together.
    """

    one: Candidate
    other: Candidate
    relation: Relation

    def __str__(self) -> str:
        first, second = self.one, self.other
        why = (
            f"{first.key} says that it conflicts with {self.relation}"
            if self.relation.name
            else "the package is not `Multi-Arch: same`"
        )
        return f"{first.key} {first.version} and {second.key} {second.version} cannot be installed together: {why}"

    @property
    def of_image(self) -> bool:
        """Whether one of the two is an image's, without a file."""
        return not (self.one.file.sha256 and self.other.file.sha256)

    def error(self) -> LockError:
        """Return the error for a package that conflicts with the image's."""
        over = self.one if self.one.file.sha256 else self.other
        return LockError(
            str(self), hint=f"leave {over.key} out: `--drop {shlex.quote(over.key)}`; or {ANOTHER_IMAGE}"
        )


class Uneven(Struct, frozen=True):
    """Two architectures of one package in different versions.

    dpkg refuses them.
    """

    one: Candidate
    other: Candidate

    def __str__(self) -> str:
        first, second = self.one, self.other
        return (
            f"{first.key} {first.version} and {second.key} {second.version} must have one version "
            "to be installed together"
        )


def find_uneven_versions(candidates: Iterable[Candidate]) -> Iterator[Uneven]:
    """Yield architectures of one package with different versions, in pairs."""
    named: dict[str, list[Candidate]] = {}
    for candidate in sorted(candidates, key=lambda candidate: candidate.key):
        named.setdefault(candidate.name, []).append(candidate)
    for same in named.values():
        for first, second in itertools.combinations(same, 2):
            if first.key != second.key and first.version != second.version:
                yield Uneven(first, second)


def find_multiarch_keys(keys: Iterable[str]) -> list[list[str]]:
    """Return the keys of packages with several architectures.

    The native one comes first.
    """
    by_name: dict[str, list[str]] = {}
    for key in sorted(keys):
        by_name.setdefault(key.partition(":")[0], []).append(key)
    return [group for group in by_name.values() if len(group) > 1]


def find_clashes(candidates: Iterable[Candidate], native: str) -> Iterator[Clash]:
    """Yield pairs of conflicting packages, in the order of the keys.

    A relation without an architecture means all of them (deb-control(5)); a package never excludes itself, nor the same
    package of another architecture if both are `Multi-Arch: same`. Packages of one image, which have no file, are
    compatible.
    """
    ordered = sorted(candidates, key=lambda candidate: candidate.key)
    named: dict[str, list[Candidate]] = {}
    for candidate in ordered:
        for name in dict.fromkeys((candidate.name, *(relation.name for relation in candidate.provides))):
            named.setdefault(name, []).append(candidate)
    for first in ordered:
        for second in named[first.name]:
            if (
                second.name == first.name
                and second.key > first.key
                and (first.file.sha256 or second.file.sha256)
                and {first.multi_arch, second.multi_arch} != {"same"}
            ):
                yield Clash(one=first, other=second, relation=Relation(""))
        for relation in first.excludes:
            for second in named.get(relation.name, ()):
                stand = second.name == first.name or not (first.file.sha256 or second.file.sha256)
                if (
                    not stand
                    and second.meets(relation)
                    and _relation_applies(relation, first, second, native)
                ):
                    yield Clash(one=first, other=second, relation=relation)


def _relation_applies(relation: Relation, first: Candidate, second: Candidate, native: str) -> bool:
    qualifier = relation.architecture
    return not qualifier or serves(
        qualifier, first.architecture, second.architecture, second.multi_arch, native
    )
