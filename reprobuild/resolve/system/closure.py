"""From what is asked for to everything that it needs, in the captured versions where they can be had.

Packages go by their keys: `zlib1g`, and of a foreign architecture `zlib1g:i386` (reprobuild.apt.architectures).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable, Mapping

from debian.debian_support import Version
from msgspec import Struct

from reprobuild.apt.index import Candidate, SystemIndex, newest
from reprobuild.apt.relations import Group, Relation
from reprobuild.errors import LockError
from reprobuild.lock import dpkg_name
from reprobuild.resolve.system.together import clashes, twins

# Both give a merged /usr; the bootstrap makes it so, and `usrmerge` would bring a second Perl for nothing.
_PREFERRED = {"usrmerge": "usr-is-merged"}
_NATIVE_UPDATE = re.compile(r"([+~]deb[0-9]+u[0-9]+|\+b[0-9]+|\+nmu[0-9]+)+$")


class Choice(Struct, frozen=True, kw_only=True):
    """A package of the closure: which version, and who asked. `needs` are the keys that it leads to."""

    candidate: Candidate
    asked_by: str
    needs: tuple[str, ...] = ()


class _Narrowed(Exception):
    """The search begins again: another version of something must be taken, or another package."""


def upstream(version: str) -> str:
    """Return a Debian version without its revision; the epoch belongs to it.

    A native package has no revision; what stable updates, binary rebuilds and uploads by others append
    to its version (`+deb12u11`, `+b1`, `+nmu1`) counts as one.
    """
    return version.rpartition("-")[0] or _NATIVE_UPDATE.sub("", version)


def pick_version(
    key: str, captured: str | None, index: SystemIndex, conditions: Iterable[Relation] = ()
) -> Candidate | None:
    """Return the version to take of a package, or None when the index has none that will do.

    The captured version; else the nearest later revision of the same upstream version; else the version
    that apt would install. `conditions` of other packages narrow the choice first.
    """
    conditions = tuple(conditions)
    return _nearest(
        [c for c in index.versions(key) if all(r.allows(c.version) for r in conditions)], captured
    )


def _nearest(allowed: list[Candidate], captured: str | None) -> Candidate | None:
    if captured is not None:
        for candidate in allowed:
            if candidate.version == captured:
                return candidate
        later = [
            c
            for c in allowed
            if upstream(c.version) == upstream(captured) and Version(c.version) > Version(captured)
        ]
        if later:
            return later[-1]
    return newest(allowed)


class Closure:
    """The search for one closure over `Depends` and `Pre-Depends`, without recommendations.

    No two of its packages conflict, and a package that is there for several architectures has one version: dpkg
    would refuse anything else.

    Args:
        index: what can be had.
        captured: the captured version of each installed package, by key.
    """

    def __init__(self, index: SystemIndex, captured: Mapping[str, str]) -> None:
        self._index = index
        self._captured = captured
        self._conditions: dict[str, list[Relation]] = {}
        self._avoided: set[str] = set()
        self._needed: set[str] = set()

    def close(self, wanted: Mapping[str, str]) -> dict[str, Choice]:
        """Return every package that is needed, by key.

        Args:
            wanted: the keys asked for, each with who asked; they must be in the index.

        Raises:
            LockError: something needs what the index does not have, or two packages conflict.
        """
        while True:
            try:
                chosen = self._walk(wanted)
                self._agree(chosen)
                self._settle(chosen, wanted)
            except _Narrowed:
                continue  # what was learnt is in the conditions, which only grow
            return chosen

    def _walk(self, wanted: Mapping[str, str]) -> dict[str, Choice]:
        chosen: dict[str, Choice] = {}
        queue = deque(wanted.items())
        while queue:
            key, asked_by = queue.popleft()
            if key in chosen:
                continue
            candidate = self._version(key)
            if candidate is None:
                raise LockError(
                    f"{asked_by} needs the system package {key}, which {self._index.label} does not have",
                    hint="choose another base or Python, or give apt a source that has it",
                )
            chosen[key] = Choice(candidate=candidate, asked_by=asked_by)
            needs = [self._alternative(group, candidate, chosen) for group in candidate.needs]
            chosen[key] = Choice(candidate=candidate, asked_by=asked_by, needs=tuple(dict.fromkeys(needs)))
            queue.extend((need, key) for need in needs)
        return chosen

    def _version(self, key: str) -> Candidate | None:
        return pick_version(key, self._captured.get(key), self._index, self._conditions.get(key, ()))

    def _alternative(self, group: Group, wants: Candidate, chosen: Mapping[str, Choice]) -> str:
        """Return the key of the package that fulfils one dependency.

        The first alternative that was captured, then one that is chosen already, then the first that the
        index has; each by its own name before those that provide it, of the native architecture before others.
        """
        found = [(key, relation) for relation in group for key in self._keys(relation)]
        ordered = [(key, relation) for key, relation in found if key not in self._avoided]
        for known in (self._captured, chosen):
            for key, relation in ordered:
                if key in known and self._meets(key, relation, wants):
                    return key
        for key, relation in ordered:
            if self._meets(key, relation, wants):
                return key
        for key, relation in ordered:
            # A later revision was taken somewhere, and needs the same of another: begin again, wiser.
            if key.partition(":")[0] == relation.name and self._could_meet(key, relation, wants):
                self._narrow(key, relation)
        for key, relation in found:
            if key in self._avoided and self._meets(key, relation, wants):
                self._avoided.remove(key)  # there was no other: its opponent must give way
                self._needed.add(key)
                raise _Narrowed
        raise LockError(
            f"{wants.key} {wants.version} needs {' | '.join(map(str, group))}, "
            f"which {self._index.label} does not have",
            hint=f"give apt a source that has it, or leave {wants.key} out with `--drop {wants.key}`",
        )

    def _keys(self, relation: Relation) -> list[str]:
        name, native = relation.name, self._index.architecture
        preferred = _PREFERRED.get(name)
        own = [name] if not preferred else [preferred, name]
        foreign = [dpkg_name(name, architecture, native) for architecture in self._index.foreign]
        return [*own, *foreign, *self._index.providers(name)]

    def _meets(self, key: str, relation: Relation, wants: Candidate) -> bool:
        candidate = self._version(key)
        if candidate is None:
            return False
        return self._index.serves(relation, wants.architecture, candidate) or (
            _PREFERRED.get(relation.name) == key
        )

    def _could_meet(self, key: str, relation: Relation, wants: Candidate) -> bool:
        conditions = [*self._conditions.get(key, ()), relation]
        candidate = pick_version(key, self._captured.get(key), self._index, conditions)
        return candidate is not None and self._index.serves(relation, wants.architecture, candidate)

    def _narrow(self, key: str, relation: Relation) -> None:
        self._conditions.setdefault(key, []).append(relation)
        raise _Narrowed

    def _agree(self, chosen: Mapping[str, Choice]) -> None:
        """Give the packages that are there for several architectures one version, which dpkg insists on."""
        for keys in twins(chosen):
            if len({chosen[key].candidate.version for key in keys}) == 1:
                continue
            common = set.intersection(*({c.version for c in self._allowed(key)} for key in keys))
            nearest = [
                _nearest([c for c in self._allowed(key) if c.version in common], self._captured.get(key))
                for key in keys
            ]
            versions = [candidate.version for candidate in nearest if candidate]
            if versions:
                best = max(versions, key=Version)
                for key in keys:
                    self._conditions.setdefault(key, []).append(Relation(key.partition(":")[0], "=", best))
                raise _Narrowed
            shown = " and ".join(f"{key} {chosen[key].candidate.version}" for key in keys)
            raise LockError(
                f"{shown} must have one version to be installed together, and {self._index.label} has none "
                "for both",
                hint=f"give apt a source that has one, or leave one out with `--drop {keys[-1]}`",
            )

    def _allowed(self, key: str) -> list[Candidate]:
        conditions = self._conditions.get(key, ())
        return [c for c in self._index.versions(key) if all(r.allows(c.version) for r in conditions)]

    def _settle(self, chosen: Mapping[str, Choice], wanted: Collection[str]) -> None:
        """Notice packages that conflict; take another version or another alternative where that helps.

        A conflict with some versions only is over once another is taken; one of the two that was neither captured
        nor asked for was an alternative, and there may be others.
        """
        native = self._index.architecture
        for clash in clashes((choice.candidate for choice in chosen.values()), native):
            opposite = clash.relation.opposite()
            if (
                opposite
                and opposite.name == clash.other.name
                and any(opposite.allows(c.version) for c in self._allowed(clash.other.key))
            ):
                self._narrow(clash.other.key, opposite)
            for key in (clash.other.key, clash.one.key):
                if not any(key in known for known in (self._captured, wanted, self._avoided, self._needed)):
                    self._avoided.add(key)
                    raise _Narrowed
            raise clash.error()
