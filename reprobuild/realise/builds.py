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
    built_wheels: list[BuiltWheel] = []
    for project in _order_projects(lock):
        needs = _required_wheels(project, lock, built_wheels)
        key = wheel_key(project, needs, lock, tree)
        known = recall_wheel(key, store)
        if known is None:
            say(f"building {project.name}{' with compilers' * project.building.compiles}")
            known = build_wheel(project, needs, lock, root(project.building.compiles), store)
            store.remember(key, msgspec.to_builtins(known))
        built_wheels.append(known)
    return tuple(built_wheels)


def recall_projects(lock: Lock, tree: str, store: Store) -> tuple[BuiltWheel, ...] | None:
    """Return the stored builds of a lock, or None if one is missing."""
    built_wheels: list[BuiltWheel] = []
    for project in _order_projects(lock):
        known = recall_wheel(
            wheel_key(project, _required_wheels(project, lock, built_wheels), lock, tree), store
        )
        if known is None:
            return None
        built_wheels.append(known)
    return tuple(built_wheels)


def _order_projects(lock: Lock) -> Iterator[Source | Sdist]:
    """Yield isolated projects first, then those built with the environment.

    The isolated ones are part of the environment.
    """
    projects: list[Source | Sdist] = [*lock.sdists, *(source for source in lock.sources if source.installed)]
    yield from sorted(projects, key=lambda project: (project.building.environment, project.name))


def _required_wheels(project: Source | Sdist, lock: Lock, built_wheels: Sequence[BuiltWheel]) -> list[Wheel]:
    hashes = set(project.building.requires)
    needs = {wheel.file.sha256: wheel for wheel in lock.wheels if wheel.file.sha256 in hashes}
    if project.building.environment:
        present = [wheel for wheel in lock.wheels if wheel.role == "environment"]
        present += [other.wheel for other in built_wheels if not other.built.parts]
        needs |= {wheel.file.sha256: wheel for wheel in present}
    return sorted(needs.values(), key=lambda wheel: (wheel.file.filename, wheel.file.sha256))
