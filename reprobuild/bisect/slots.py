"""A lock as slots: parts that can be taken from one lock and put into another.

A slot is a field and a key in it, as `("environment", "OMP_NUM_THREADS")`. An absent slot is an absent part.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from packaging.utils import canonicalize_name

from reprobuild.lock.model import Lock, canonical
from reprobuild.lock.system import Base

Slot = tuple[str, str]
Slots = dict[Slot, Any]

# Fields with one value, and no effect on an image beyond labels.
INERT = ("version", "snapshot", "decisions", "rulings", "workload")
SINGLE = ("platform", "epoch", "seed", "profile", "interpreter", "workdir", "build_base")
BASE = ("distribution", "release", "image")
PACKAGES = {"system": "packages", "tool": "tools"}
_SEQUENCES = {"conda": "conda", "source": "sources", "environment": "environment"}


def split_lock(lock: Lock) -> Slots:
    """Return the slots of a lock, without its inert fields.

    Wheels of role `build` follow from the projects that are built with them.
    """
    slots: Slots = {("lock", name): getattr(lock, name) for name in SINGLE}
    slots |= {("base", name): getattr(lock.base, name) for name in BASE}
    for kind, field in PACKAGES.items():
        slots |= {(kind, f"{deb.name}:{deb.architecture}"): deb for deb in getattr(lock.base, field)}
    for kind, field in _SEQUENCES.items():
        slots |= {(kind, item.name): item for item in getattr(lock, field)}
    slots |= {("wheel", _name(wheel)): wheel for wheel in lock.wheels if wheel.role == "environment"}
    slots |= {("sdist", _name(sdist)): sdist for sdist in lock.sdists}
    return slots


def _name(item: Any) -> str:
    return str(canonicalize_name(item.name))


def join_slots(slots: Mapping[Slot, Any], inert: Lock, locks: tuple[Lock, Lock]) -> Lock:
    """Return the lock of these slots.

    Args:
        slots: as `split_lock` returns them.
        inert: the lock with the fields that have no effect.
        locks: those of which the slots come; they have the wheels for builds.
    """

    def items(kind: str) -> tuple[Any, ...]:
        return tuple(value for (slot_kind, _), value in slots.items() if slot_kind == kind)

    base = Base(packages=items("system"), tools=items("tool"), **{name: slots["base", name] for name in BASE})
    fields: dict[str, Any] = {field: items(kind) for kind, field in _SEQUENCES.items()}
    fields |= {name: slots["lock", name] for name in SINGLE}
    fields |= {name: getattr(inert, name) for name in INERT}
    lock = Lock(base=base, wheels=items("wheel"), sdists=items("sdist"), **fields)
    required = _build_requirements(lock) | (_idle_build_wheels(inert))
    tools = {wheel.file.sha256: wheel for part in locks for wheel in part.wheels if wheel.role == "build"}
    more = tuple(wheel for sha256, wheel in tools.items() if sha256 in required)
    return canonical(msgspec.structs.replace(lock, wheels=(*lock.wheels, *more)))


def _build_requirements(lock: Lock) -> set[str]:
    buildings = [
        *(sdist.building for sdist in lock.sdists),
        *(source.building for source in lock.sources),
    ]
    return {sha256 for building in buildings for sha256 in building.requires}


def _idle_build_wheels(lock: Lock) -> set[str]:
    """Return the sha256 of wheels for builds that no project names."""
    return {wheel.file.sha256 for wheel in lock.wheels if wheel.role == "build"} - _build_requirements(lock)
