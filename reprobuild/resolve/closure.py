"""From what is asked for to everything that it needs, in the captured versions where they can be had."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping

from debian.debian_support import Version
from msgspec import Struct

from reprobuild.apt.index import Candidate, SystemIndex, newest
from reprobuild.apt.relations import Group, Relation
from reprobuild.errors import LockError

# Both give a merged /usr; the bootstrap makes it so, and `usrmerge` would bring a second Perl for nothing.
_PREFERRED = {"usrmerge": "usr-is-merged"}
_NATIVE_UPDATE = re.compile(r"([+~]deb[0-9]+u[0-9]+|\+b[0-9]+|\+nmu[0-9]+)+$")


class Choice(Struct, frozen=True, kw_only=True):
    """A package of the closure: which version, and who asked. `needs` are the names that it leads to."""

    candidate: Candidate
    asked_by: str
    needs: tuple[str, ...] = ()


class _Unmet(Exception):
    """A chosen version does not meet a condition that some other version meets."""

    def __init__(self, relation: Relation) -> None:
        super().__init__(str(relation))
        self.relation = relation


def upstream(version: str) -> str:
    """Return a Debian version without its revision; the epoch belongs to it.

    A native package has no revision; what stable updates, binary rebuilds and uploads by others append
    to its version (`+deb12u11`, `+b1`, `+nmu1`) counts as one.
    """
    return version.rpartition("-")[0] or _NATIVE_UPDATE.sub("", version)


def pick_version(
    name: str, captured: str | None, index: SystemIndex, conditions: Iterable[Relation] = ()
) -> Candidate | None:
    """Return the version to take of a package, or None when the index has none that will do.

    The captured version; else the nearest later revision of the same upstream version; else the version
    that apt would install. `conditions` of other packages narrow the choice first.
    """
    allowed = [c for c in index.versions(name) if all(r.allows(c.version) for r in conditions)]
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

    Args:
        index: what can be had.
        captured: the captured version of each installed package.
    """

    def __init__(self, index: SystemIndex, captured: Mapping[str, str]) -> None:
        self._index = index
        self._captured = captured
        self._conditions: dict[str, list[Relation]] = {}

    def close(self, wanted: Mapping[str, str]) -> dict[str, Choice]:
        """Return every package that is needed, by name.

        Args:
            wanted: the names asked for, each with who asked; they must be in the index.

        Raises:
            LockError: something needs what the index does not have.
        """
        while True:
            try:
                return self._walk(wanted)
            except _Unmet as unmet:
                # A later revision was taken somewhere, and needs the same of another; begin again, wiser.
                self._conditions.setdefault(unmet.relation.name, []).append(unmet.relation)

    def _walk(self, wanted: Mapping[str, str]) -> dict[str, Choice]:
        chosen: dict[str, Choice] = {}
        queue = deque(wanted.items())
        while queue:
            name, asked_by = queue.popleft()
            if name in chosen:
                continue
            candidate = self._version(name)
            if candidate is None:
                raise LockError(
                    f"{asked_by} needs the system package {name}, which {self._index.label} does not have",
                    hint="choose another base or Python, or give apt a source that has it",
                )
            chosen[name] = Choice(candidate=candidate, asked_by=asked_by)
            needs = [self._alternative(group, candidate, chosen) for group in candidate.needs]
            chosen[name] = Choice(candidate=candidate, asked_by=asked_by, needs=tuple(dict.fromkeys(needs)))
            queue.extend((need, name) for need in needs)
        return chosen

    def _version(self, name: str) -> Candidate | None:
        return pick_version(name, self._captured.get(name), self._index, self._conditions.get(name, ()))

    def _alternative(self, group: Group, wants: Candidate, chosen: Mapping[str, Choice]) -> str:
        """Return the name of the package that fulfils one dependency.

        The first alternative that was captured, then one that is chosen already, then the first that the
        index has; each by its own name before those that provide it.
        """
        ordered = [(name, relation) for relation in group for name in self._names(relation)]
        for known in (self._captured, chosen):
            for name, relation in ordered:
                if name in known and self._meets(name, relation):
                    return name
        for name, relation in ordered:
            if self._meets(name, relation):
                return name
        for name, relation in ordered:
            if name == relation.name and self._could_meet(relation):
                raise _Unmet(relation)
        raise LockError(
            f"{wants.name} {wants.version} needs {' | '.join(map(str, group))}, "
            f"which {self._index.label} does not have",
            hint=f"give apt a source that has it, or leave {wants.name} out with `--drop {wants.name}`",
        )

    def _names(self, relation: Relation) -> list[str]:
        preferred = _PREFERRED.get(relation.name)
        own = [relation.name] if not preferred else [preferred, relation.name]
        return [*own, *self._index.providers(relation.name)]

    def _meets(self, name: str, relation: Relation) -> bool:
        candidate = self._version(name)
        if candidate is None:
            return False
        return candidate.meets(relation) or _PREFERRED.get(relation.name) == name

    def _could_meet(self, relation: Relation) -> bool:
        conditions = [*self._conditions.get(relation.name, ()), relation]
        captured = self._captured.get(relation.name)
        return pick_version(relation.name, captured, self._index, conditions) is not None
