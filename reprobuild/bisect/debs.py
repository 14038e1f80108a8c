"""Requirements between the system packages of two locks, by the control files of those that differ.

If a requirement holds in one lock and not with the other lock's packages, the two change together, or in one order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from reprobuild.bisect.slots import Slot, Slots
from reprobuild.context import RunContext
from reprobuild.ecosystems.apt.deb import DebControl, read_control
from reprobuild.ecosystems.apt.relations import Group
from reprobuild.errors import BuildError
from reprobuild.lock.system import Deb

# Returns the control file of a package; None if it is unavailable.
ReadControl = Callable[[Deb], DebControl | None]
# By name, also of virtual packages: each package with its version, which is empty for a virtual one.
_Packages = Mapping[str, Sequence[tuple[Slot, str]]]


def open_control(deb: Deb, context: RunContext) -> DebControl | None:
    """Return the control file of a system package in the store; None if the file is no package.

    Raises:
        FetchError: it is not there, or damaged.
    """
    path = context.store.verified(deb.file.sha256, deb.file.filename)
    try:
        return read_control(path, deb.file.filename)
    except BuildError:
        return None  # the trial that installs it reports it


def link_debs(
    slots: tuple[Slots, Slots], differing: Sequence[Slot], read_control: ReadControl
) -> list[tuple[Slot, Slot]]:
    """Return (a, b) for each slot a that cannot be of B without slot b."""
    changed = [slot for slot in differing if slot[0] == "system"]
    debs = {side[slot].file.sha256: side[slot] for side in slots for slot in changed if slot in side}
    controls = {sha256: control for sha256, deb in debs.items() if (control := read_control(deb))}
    packages = [_list_packages(side, controls) for side in slots]
    return sorted(
        {
            *_links(slots[1], changed, controls, packages[1], packages[0]),
            *((other, slot) for slot, other in _links(slots[0], changed, controls, packages[0], packages[1])),
        }
    )


def _list_packages(side: Slots, controls: Mapping[str, DebControl]) -> _Packages:
    packages: dict[str, list[tuple[Slot, str]]] = defaultdict(list)
    for slot, deb in side.items():
        if slot[0] == "system":
            packages[deb.name].append((slot, deb.version))
            control = controls.get(deb.file.sha256)
            for name in control.provides if control else ():
                packages[name].append((slot, ""))
    return packages


def _links(
    side: Slots,
    changed: Sequence[Slot],
    controls: Mapping[str, DebControl],
    packages: _Packages,
    others: _Packages,
) -> Iterator[tuple[Slot, Slot]]:
    """Yield the packages of a side whose requirements the other side does not meet, with the package that does."""
    for slot in changed:
        control = controls.get(side[slot].file.sha256) if slot in side else None
        for group in (*control.before, *control.needs) if control else ():
            required = next(_find(group, packages), slot)
            if required != slot and required in changed and not any(_find(group, others)):
                yield slot, required


def _find(group: Group, packages: _Packages) -> Iterator[Slot]:
    """Yield the packages that meet one of the alternatives."""
    for relation in group:
        for slot, version in packages.get(relation.name, ()):
            if relation.allows(version) if version else not relation.operator:
                yield slot
