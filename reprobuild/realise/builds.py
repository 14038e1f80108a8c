"""Builds of all projects of a lock, in dependency order."""

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
    """Build the wheels of a lock's projects; reuse stored wheels.

    Args:
        lock: has the projects.
        tree: the tree of an interpreter of its own, or empty.
        root: returns the root to build in; its argument is True if the project compiles.
        store: has the projects, and receives the wheels.
        say: logs each build.

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
    """Return the stored builds of a lock, or None if one is missing."""
    made: list[BuiltWheel] = []
    for one in _ordered(lock):
        known = recall_wheel(wheel_key(one, _needs(one, lock, made), lock, tree), store)
        if known is None:
            return None
        made.append(known)
    return tuple(made)


def _ordered(lock: Lock) -> Iterator[Source | Sdist]:
    """Yield isolated projects first, then those built with the environment.

    The isolated ones are part of the environment.
    """
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
