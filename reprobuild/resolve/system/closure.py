"""Closure over dependencies, in captured versions if available.

Packages go by their keys: `zlib1g`, and of a foreign architecture `zlib1g:i386`
(reprobuild.ecosystems.apt.architectures).

A system deviates from the captured list, the worst first:

1. by captured packages that are passed over: the first captured one that could satisfy a need, and is absent;
2. by captured packages of another upstream version, or of an earlier revision;
3. by captured packages of a later revision of the same upstream version.

The system of least deviation is taken. Of several that deviate equally, it is the one that takes for each dependency
the first captured alternative, else the first, as apt does, if these can be installed together. Else it is one with
the fewest packages that are not such an alternative, then with the fewest added ones, then with the nearest versions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

from msgspec import Struct

from reprobuild.ecosystems.apt.index import Candidate, SystemIndex
from reprobuild.resolve.system.alternatives import Dependency, Ways, is_later_revision, pick_version
from reprobuild.resolve.system.conflicts import find_clashes, find_uneven_versions
from reprobuild.resolve.system.contradiction import explain_contradiction
from reprobuild.resolve.system.solver import Best, Deviation, PackagePool

_Pick = Callable[[str], "Candidate | None"]


class PackageChoice(Struct, frozen=True, kw_only=True):
    """A package of the closure: its version, and who asked.

    `needs` are the keys that it leads to.
    """

    candidate: Candidate
    asked_by: str
    needs: tuple[str, ...] = ()


class Closure:
    """The search for one closure over `Depends` and `Pre-Depends`.

    Recommendations are ignored.

    No two of its packages conflict, and a package with several architectures has one version: dpkg would refuse
    anything else.

    Args:
        index: the available packages.
        captured: the captured version of each installed package, by key.
        drops: the package of the list that asks for a key, which the user can leave out.
    """

    def __init__(
        self, index: SystemIndex, captured: Mapping[str, str], drops: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._index, self._captured, self._drops = index, captured, drops
        self._ways = Ways(index)

    def close(self, requests: Mapping[str, str]) -> dict[str, PackageChoice]:
        """Return all needed packages, by key: the system of least deviation.

        Args:
            requests: the requested keys, each with the asking package.

        Raises:
            LockError: there is no such system; the message lists the contradicting restrictions.
        """
        plain = self._plain(requests)
        if plain is not None and not any(self._deviation(plain)):
            return plain
        best = self._best(requests)
        if plain is not None and self._deviation(plain) == best.deviation:
            return plain
        return self._all(requests, best.chosen)

    def _best(self, requests: Mapping[str, str]) -> Best:
        best = PackagePool(self._index, self._ways, self._captured, requests, whole=False).best()
        if best is None or best.deviation[0]:
            pool = PackagePool(self._index, self._ways, self._captured, requests, whole=True)
            best = pool.best()
            if best is None:
                raise explain_contradiction(pool.contradiction(), requests, self._drops, self._index.label)
        return best

    def _all(self, requests: Mapping[str, str], solved: Mapping[str, Candidate]) -> dict[str, PackageChoice]:
        """Return the packages of a solution.

        They include packages for needs that another package also satisfies.
        """
        while True:
            chosen = self._walk(requests, solved.get)
            assert chosen is not None  # the solver left no need unmet
            more = {
                key: asker
                for key, candidate in solved.items()
                if key not in chosen and (asker := self._asker(candidate, chosen))
            }
            if not more:
                return chosen
            requests = {**requests, **more}

    def _asker(self, candidate: Candidate, chosen: Mapping[str, PackageChoice]) -> str | None:
        """Return the first package with a need that a package satisfies."""
        for key, choice in chosen.items():
            for group in choice.candidate.needs:
                ways = self._ways.list_ways(Dependency(group, choice.candidate.architecture))
                if any(candidate in versions for _, versions in ways):
                    return key
        return None

    def _plain(self, requests: Mapping[str, str]) -> dict[str, PackageChoice] | None:
        """Return the nearest versions and first alternatives, or None.

        It is None if they cannot be installed together.
        """
        chosen = self._walk(requests, self._nearest)
        if chosen is None:
            return None
        candidates = [choice.candidate for choice in chosen.values()]
        refused = (*find_clashes(candidates, self._index.architecture), *find_uneven_versions(candidates))
        return None if refused else chosen

    def _nearest(self, key: str) -> Candidate | None:
        return pick_version(key, self._captured.get(key), self._index)

    def _walk(self, requests: Mapping[str, str], pick: _Pick) -> dict[str, PackageChoice] | None:
        """Return the wanted packages and their needs, chosen by `pick`.

        Return None if one is missing.
        """
        chosen: dict[str, PackageChoice] = {}
        queue = deque(requests.items())
        while queue:
            key, asked_by = queue.popleft()
            if key in chosen:
                continue
            candidate = pick(key)
            if candidate is None:
                return None
            chosen[key] = PackageChoice(candidate=candidate, asked_by=asked_by)
            needs = []
            for group in candidate.needs:
                need = self._alternative(Dependency(group, candidate.architecture), chosen, pick)
                if need is None:
                    return None
                needs.append(need)
            chosen[key] = PackageChoice(
                candidate=candidate, asked_by=asked_by, needs=tuple(dict.fromkeys(needs))
            )
            queue.extend((need, key) for need in needs)
        return chosen

    def _alternative(self, need: Dependency, chosen: Mapping[str, PackageChoice], pick: _Pick) -> str | None:
        """Return the first package that satisfies a need.

        Captured packages come first, then chosen ones, then all.
        """
        keys = [key for key, candidates in self._ways.list_ways(need) if pick(key) in candidates]
        for known in (self._captured, chosen):
            for key in keys:
                if key in known:
                    return key
        return keys[0] if keys else None

    def _deviation(self, chosen: Mapping[str, PackageChoice]) -> Deviation:
        """Return the deviation of a system, as the solver counts it."""
        versions = {key: choice.candidate.version for key, choice in chosen.items()}
        moved = [
            is_later_revision(version, captured)
            for key, version in versions.items()
            if (captured := self._captured.get(key, version)) != version
        ]
        passed = {key for choice in chosen.values() for key in self._wished(choice.candidate)} - chosen.keys()
        return len(passed), moved.count(False), moved.count(True)

    def _wished(self, candidate: Candidate) -> Iterator[str]:
        """Yield the first captured package for each need of a package.

        Any version of it counts.
        """
        for group in candidate.needs:
            ways = self._ways.list_ways(Dependency(group, candidate.architecture))
            yield from [key for key, _ in ways if key in self._captured][:1]


def find_reachable(names: Iterable[str], chosen: Mapping[str, PackageChoice]) -> set[str]:
    """Return the names and all their dependencies."""
    reachable: set[str] = set()
    queue = list(names)
    while queue:
        name = queue.pop()
        if name not in reachable:
            reachable.add(name)
            queue.extend(chosen[name].needs)
    return reachable
