"""The installation order of packages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from reprobuild.ecosystems.apt.architectures import serves
from reprobuild.ecosystems.apt.deb import DebControl
from reprobuild.ecosystems.apt.relations import Group
from reprobuild.lock.system import dpkg_name


def plan_batches(controls: Sequence[DebControl], essential: Iterable[str], native: str) -> list[list[str]]:
    """Return the keys of packages in batches, in installation order.

    A key is for example `zlib1g` or `zlib1g:i386`.

    Each batch is unpacked and then configured. The first batch has the essential packages. The others come after their
    dependencies; those that need each other stay together; a batch ends if a package must find others configured
    (Pre-Depends).

    Args:
        controls: of every package.
        essential: the keys of those that are installed first.
        native: the system's architecture.
    """
    first = sorted(essential)
    known = {dpkg_name(control.name, control.architecture, native): control for control in controls}
    known = dict(sorted(known.items()))
    providers: dict[str, list[str]] = {}
    for key, control in known.items():
        for name in (control.name, *control.provides):
            providers.setdefault(name, []).append(key)
    before = {key: _satisfying_packages(c, c.before, known, providers, native) for key, c in known.items()}
    needs = {
        key: before[key] | _satisfying_packages(c, c.needs, known, providers, native)
        for key, c in known.items()
    }
    reach = {key: _reachable_keys(key, needs) for key in needs}
    together = {key: min(other for other in reach[key] if key in reach[other]) for key in needs}
    order = sorted(set(needs) - set(first), key=lambda n: (len(reach[n]), together[n], n))
    result: list[list[str]] = [first]
    current: list[str] = []
    for key in order:
        if any(other in current and together[other] != together[key] for other in before[key]):
            result.append(current)
            current = []
        current.append(key)
    return [batch for batch in (*result, current) if batch]


def _satisfying_packages(
    wants: DebControl, groups: Iterable[Group], known: Mapping[str, DebControl], providers: Mapping[str, Sequence[str]],
    native: str,
) -> set[str]:  # fmt: skip
    """Return the packages that satisfy dependencies.

    For each group, they are all packages that serve the first alternative with any.
    """
    targets: set[str] = set()
    for group in groups:
        for relation in group:
            serving = [
                key
                for key in providers.get(relation.name, ())
                if serves(
                    relation.architecture,
                    wants.architecture,
                    known[key].architecture,
                    known[key].multi_arch,
                    native,
                )
            ]
            if serving:
                targets.update(serving)
                break
    return targets


def _reachable_keys(name: str, needs: Mapping[str, set[str]]) -> frozenset[str]:
    """Return a key and all keys reachable from it."""
    keys = {name}
    stack = [name]
    while stack:
        for other in needs[stack.pop()]:
            if other not in keys:
                keys.add(other)
                stack.append(other)
    return frozenset(keys)
