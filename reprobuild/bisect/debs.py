"""Requirements between the system packages of two locks, by the control files of those that differ.

If a requirement holds in one lock and not with the other lock's packages, the two change together, or in one order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice

from msgspec import Struct

from reprobuild.bisect.slots import Slot, Slots
from reprobuild.context import RunContext
from reprobuild.ecosystems.apt.deb import DebControl, read_control
from reprobuild.ecosystems.apt.relations import Group
from reprobuild.errors import BuildError
from reprobuild.lock.system import Deb

# Returns the control file of a package; None if it is unavailable.
ReadControl = Callable[[Deb], DebControl | None]
# The first requirements of a package, with alternatives, and the first names that it provides, count. In Debian 12,
# parl-desktop-world has the most requirements, 332, librust-winapi-dev the most names, 1603, and all 63,666 packages
# together have 287,900 requirements.
MOST_REQUIRED, MOST_PROVIDED, MOST_TOGETHER = 1000, 5000, 300_000


class _Statements(Struct, frozen=True, kw_only=True):
    """The requirements of a package, each once, and the names that it provides."""

    groups: tuple[Group, ...] = ()
    provides: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """The number of names in it."""
        return sum(map(len, self.groups)) + len(self.provides)


def open_control(deb: Deb, context: RunContext) -> DebControl | None:
    """Return the control file of a system package in the store; None if the file is not that package.

    Raises:
        FetchError: it is not there, or damaged.
    """
    path = context.store.verified(deb.file.sha256, deb.file.filename)
    try:
        control = read_control(path, deb.file.filename)
    except BuildError:
        return None  # the trial that installs it reports it
    return control if (control.name, control.architecture) == (deb.name, deb.architecture) else None


def link_debs(
    slots: tuple[Slots, Slots], differing: Sequence[Slot], read_control: ReadControl
) -> list[tuple[Slot, Slot]]:
    """Return (a, b) for each slot a that cannot be of B without slot b."""
    changed = {slot: None for slot in differing if slot[0] == "system"}
    debs = {side[slot].file.sha256: side[slot] for side in slots for slot in changed if slot in side}
    stated = _read_statements(debs, read_control)
    names = {relation.name for item in stated.values() for group in item.groups for relation in group}
    sides = [_Side(side, stated, names) for side in slots]
    return sorted(
        {
            *islice(_links(sides[1], sides[0], changed), MOST_TOGETHER),
            *((other, slot) for slot, other in islice(_links(sides[0], sides[1], changed), MOST_TOGETHER)),
        }
    )


def _read_statements(debs: Mapping[str, Deb], read_control: ReadControl) -> dict[str, _Statements]:
    """Return what packages state, by their sha256, within the bounds."""
    stated: dict[str, _Statements] = {}
    left = MOST_TOGETHER
    for sha256, deb in debs.items():
        control = read_control(deb)
        if control is None:
            continue
        groups: dict[Group, None] = {}
        room = MOST_REQUIRED
        for group in (*control.before, *control.needs):
            if group not in groups and len(group) <= room:
                groups[group] = None
                room -= len(group)
        provides = tuple(dict.fromkeys(control.provides[:MOST_PROVIDED]))
        item = _Statements(groups=tuple(groups), provides=provides)
        if item.size <= left:
            stated[sha256] = item
            left -= item.size
    return stated


class _Side:
    """The system packages of a lock, by name, with answers to questions on them."""

    def __init__(self, side: Slots, stated: Mapping[str, _Statements], names: Collection[str]) -> None:
        """Take the slots, what their packages state, and the names that questions have."""
        self.slots, self._stated = side, stated
        # Also of virtual packages: each package with its version, which is empty for a virtual one.
        self._packages: dict[str, list[tuple[Slot, str]]] = {}
        self._answers: dict[Group, Slot | None] = {}
        files: set[str] = set()
        virtual: set[str] = set()  # names, of which one package is enough
        for slot, deb in side.items():
            if slot[0] != "system":
                continue
            if deb.name in names:
                self._packages.setdefault(deb.name, []).append((slot, deb.version))
            item = None if deb.file.sha256 in files else stated.get(deb.file.sha256)
            files.add(deb.file.sha256)
            for name in item.provides if item else ():
                if name in names and name not in virtual:
                    virtual.add(name)
                    self._packages.setdefault(name, []).append((slot, ""))

    def groups(self, slot: Slot) -> tuple[str, tuple[Group, ...]]:
        """Return the sha256 of a slot's package, and the groups that it requires."""
        sha256 = self.slots[slot].file.sha256 if slot in self.slots else ""
        return sha256, self._stated[sha256].groups if sha256 in self._stated else ()

    def find(self, group: Group) -> Slot | None:
        """Return the first package that meets one of the alternatives."""
        if group not in self._answers:
            self._answers[group] = next(self._meeting(group), None)
        return self._answers[group]

    def _meeting(self, group: Group) -> Iterator[Slot]:
        for relation in group:
            for slot, version in self._packages.get(relation.name, ()):
                if relation.allows(version) if version else not relation.operator:
                    yield slot


def _links(side: _Side, other: _Side, changed: Collection[Slot]) -> Iterator[tuple[Slot, Slot]]:
    """Yield the packages of a side whose requirements the other side does not meet, with the package that does."""
    required: dict[str, list[Slot]] = {}  # by the sha256 of the package
    for slot in changed:
        sha256, groups = side.groups(slot)
        if sha256 not in required:
            answers = dict.fromkeys(side.find(group) for group in groups if other.find(group) is None)
            required[sha256] = [item for item in answers if item is not None and item in changed]
        for item in required[sha256]:
            if item != slot:
                yield slot, item
