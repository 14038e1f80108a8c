"""Requirements between the differences of two locks.

A wheel states what it requires. If the requirement holds in one lock and not with the other lock's version of the
required project, the two change together, or in one order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from reprobuild.bisect.slots import Slot, Slots
from reprobuild.lock.python import Sdist, Wheel
from reprobuild.lock.requirements import read_requirement

# Returns (a, b) for each slot a that cannot be of B without slot b. The slots of A and B, and those that differ.
FindLinks = Callable[[tuple[Slots, Slots], Sequence[Slot]], list[tuple[Slot, Slot]]]


def link_wheels(slots: tuple[Slots, Slots], differing: Sequence[Slot]) -> list[tuple[Slot, Slot]]:
    """Return (a, b) for each slot a that cannot be of B without slot b."""
    names = {slot[1]: slot for slot in differing if slot[0] in ("wheel", "sdist", "source")}
    return sorted(
        {
            *_links(slots[1], slots[0], names),
            *((other, slot) for slot, other in _links(slots[0], slots[1], names)),
        }
    )


def _links(side: Slots, other: Slots, names: dict[str, Slot]) -> Iterator[tuple[Slot, Slot]]:
    """Yield the wheels of a side whose requirements the other side does not meet, with the required project.

    A wheel of both sides is already beside the other's version, so that its requirement is a captured conflict.
    """
    differing = set(names.values())
    for slot, wheel in side.items():
        if slot[0] != "wheel" or slot not in differing:
            continue
        for text in wheel.requires:
            requirement = read_requirement(text)
            name = str(canonicalize_name(requirement.name)) if requirement else ""
            required = names.get(name)
            if requirement is None or required is None or required == slot:
                continue
            if _meets(requirement.specifier, side, name) and not _meets(requirement.specifier, other, name):
                yield slot, required


def _meets(specifier: SpecifierSet, side: Slots, name: str) -> bool:
    """Return whether a side has a project in a fitting version; an unknown version fits."""
    item: Wheel | Sdist | None = side.get(("wheel", name)) or side.get(("sdist", name))
    if item is None:
        return ("source", name) in side
    try:
        return not item.version or specifier.contains(Version(item.version), prereleases=True)
    except InvalidVersion:
        return True
