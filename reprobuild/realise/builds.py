"""Every project of a lock to its wheel, in an order in which each finds what its build imports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from reprobuild.infra.sandbox.model import Root
from reprobuild.lock.model import Lock
from reprobuild.lock.python import Sdist, Source, Wheel
from reprobuild.realise.wheels import BuiltWheel, build_wheel, recall_wheel, wheel_key
from reprobuild.store.store import Store


def build_projects(
    lock: Lock, tree: str, root: Callable[[bool], Root], store: Store, say: Callable[[str], None]
) -> tuple[BuiltWheel, ...]:
    """Build what the store does not remember.

    Args:
        lock: has the projects.
        tree: that of an interpreter of its own, or empty.
        root: gives the root to build in; it is told whether something compiles.
        store: has the projects, and receives the wheels.
        say: told what is built.

    Raises:
        BuildError: see `build_wheel`.
    """
    made: list[BuiltWheel] = []
    for one in _ordered(lock):
        needs = _needs(one, lock, made)
        key = wheel_key(one, needs, lock, tree)
        known = recall_wheel(key, store)
        if known is None:
            say(f"building {one.name}{' with compilers' * one.building.compiles}")
            known = build_wheel(one, needs, lock, root(one.building.compiles), store)
            store.remember(key, msgspec.to_builtins(known))
        made.append(known)
    return tuple(made)


def recall_projects(lock: Lock, tree: str, store: Store) -> tuple[BuiltWheel, ...] | None:
    """Return what was built of a lock before, None where something must be built."""
    made: list[BuiltWheel] = []
    for one in _ordered(lock):
        known = recall_wheel(wheel_key(one, _needs(one, lock, made), lock, tree), store)
        if known is None:
            return None
        made.append(known)
    return tuple(made)


def _ordered(lock: Lock) -> Iterator[Source | Sdist]:
    """Give what is built by itself first, then what is built with the environment, which that is part of."""
    projects: list[Source | Sdist] = [*lock.sdists, *(source for source in lock.sources if source.installed)]
    yield from sorted(projects, key=lambda one: (one.building.environment, one.name))


def _needs(one: Source | Sdist, lock: Lock, made: Sequence[BuiltWheel]) -> list[Wheel]:
    wanted = set(one.building.requires)
    needs = {wheel.file.sha256: wheel for wheel in lock.wheels if wheel.file.sha256 in wanted}
    if one.building.environment:
        present = [wheel for wheel in lock.wheels if wheel.role == "environment"]
        present += [other.wheel for other in made if not other.built.parts]
        needs |= {wheel.file.sha256: wheel for wheel in present}
    return sorted(needs.values(), key=lambda wheel: wheel.file.filename)
