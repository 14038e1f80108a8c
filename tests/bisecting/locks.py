"""Pairs of locks with planted differences of every kind."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from reprobuild.bisect.atoms import AtomSet
from reprobuild.lock.model import Lock
from reprobuild.lock.python import Interpreter, Wheel
from reprobuild.lock.system import Artefact, Base, Deb, EnvVar
from tests.verify.samples import conda_package, make_lock, source, wheel


def deb(name: str, version: str) -> Deb:
    file = Artefact(filename=f"{name}.deb", sha256=f"{abs(hash((name, version))):064x}"[:64], size=1)
    return Deb(name=name, version=version, architecture="amd64", essential=False, file=file)


def variable(name: str, value: str) -> EnvVar:
    return EnvVar(name=name, value=value)


def lock(**more: Any) -> Lock:
    """Return a lock with a few things of each kind; `more` replaces fields."""
    fields: dict[str, Any] = {
        "base": Base(
            distribution="debian", release="bookworm",
            packages=(deb("bash", "5.2"), deb("libc6", "2.36-9"), deb("libc-bin", "2.36-9"), deb("zlib1g", "1.2")),
            tools=(deb("mawk", "1.3"),),
        ),
        "wheels": (wheel("torch", "2.0"), wheel("numpy", "1.26"), wheel("idna", "3.1")),
        "conda": (conda_package("mkl", "2023"),),
        "environment": (variable("OMP_NUM_THREADS", "2"), variable("PYTHONPATH", "/a:/b")),
        **more,
    }  # fmt: skip
    return make_lock(**fields)


def other_version(item: Any, rng: random.Random) -> Any:
    """Return a thing of a lock in another version or value."""
    if isinstance(item, EnvVar):
        return msgspec.structs.replace(item, value=item.value + "0")
    if isinstance(item, Deb):
        return deb(item.name, f"{item.version}+{rng.randint(1, 9)}")
    return wheel(item.name, "9.0") if isinstance(item, Wheel) else conda_package(item.name, "9.0")


def random_other(first: Lock, rng: random.Random) -> Lock:
    """Return a lock that differs in some of everything."""

    def change(items: tuple[Any, ...]) -> tuple[Any, ...]:
        changed = [item if rng.random() < 0.5 else other_version(item, rng) for item in items]
        return tuple(item for item in changed if rng.random() < 0.8)

    base = msgspec.structs.replace(first.base, packages=change(first.base.packages))
    more: dict[str, Any] = {
        "seed": rng.choice([None, 7]), "profile": rng.choice(["torch", "strict"]), "epoch": rng.choice([0, 86400]),
        "interpreter": rng.choice(
            [first.interpreter, Interpreter(version="3.11.9", executable="/opt/python/bin/python3.11", evidence="it")]
        ),
        "sources": rng.choice([first.sources, (), (source("mylib", "8" * 40),)]), "workdir": rng.choice(["/src", "/x"]),
        "snapshot": rng.choice(["5", "6"]) * 64,
    }  # fmt: skip
    return msgspec.structs.replace(
        first, base=base, wheels=change(first.wheels), conda=change(first.conda),
        environment=change(first.environment), **more,
    )  # fmt: skip


def list_needs(found: AtomSet) -> dict[str, list[str]]:
    """Return for each difference, by name, the names of those that it requires."""
    names = [atom.name for atom in found.atoms]
    return {
        name: sorted(names[number] for number in needed)
        for name, needed in zip(names, found.needs, strict=True)
    }
