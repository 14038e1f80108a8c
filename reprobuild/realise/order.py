"""The one order in which packages are installed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from reprobuild.apt.deb import Control
from reprobuild.apt.relations import Group, Relation


def batches(controls: Sequence[Control], essential: Iterable[str]) -> list[list[str]]:
    """Return the names in the order of installation, in batches that are unpacked and then configured.

    The first batch are the essential packages. The others come after what they need; those that need each
    other stay together; a batch ends where a package must find others configured (Pre-Depends).
    """
    first = sorted(essential)
    controls = sorted(controls, key=lambda control: control.name)
    providers: dict[str, list[str]] = {}
    for control in controls:
        for name in (control.name, *control.provides):
            providers.setdefault(name, []).append(control.name)
    before = {c.name: _targets(c.before, providers) for c in controls}
    needs = {c.name: before[c.name] | _targets(c.needs, providers) for c in controls}
    reach = {name: _reach(name, needs) for name in needs}
    together = {name: min(other for other in reach[name] if name in reach[other]) for name in needs}
    order = sorted(set(needs) - set(first), key=lambda n: (len(reach[n]), together[n], n))
    result: list[list[str]] = [first]
    current: list[str] = []
    for name in order:
        if any(other in current and together[other] != together[name] for other in before[name]):
            result.append(current)
            current = []
        current.append(name)
    return [batch for batch in (*result, current) if batch]


def _targets(groups: Iterable[Group], providers: Mapping[str, Sequence[str]]) -> set[str]:
    found: set[str] = set()
    for group in groups:
        found.update(_first(group, providers))
    return found


def _first(group: Sequence[Relation], providers: Mapping[str, Sequence[str]]) -> Sequence[str]:
    return next((providers[r.name] for r in group if r.name in providers), ())


def _reach(name: str, needs: Mapping[str, set[str]]) -> frozenset[str]:
    """Return the name and all that it leads to."""
    found = {name}
    left = [name]
    while left:
        for other in needs[left.pop()]:
            if other not in found:
                found.add(other)
                left.append(other)
    return frozenset(found)
