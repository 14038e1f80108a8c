"""The base from an image of a registry: found, brought, read, and completed with packages."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from reprobuild.apt.index import SystemIndex
from reprobuild.decisions import Decisions
from reprobuild.errors import LockError
from reprobuild.fetch import fetch
from reprobuild.lock import Base, Interpreter, Ruling, Setting
from reprobuild.registry.manifest import find_image
from reprobuild.registry.reference import parse_reference
from reprobuild.resolve.base_image import Wanted, resolve_image_base
from reprobuild.resolve.image_environment import inherit_environment
from reprobuild.resolve.image_system import ImageSystem, read_system
from reprobuild.resolve.surroundings import Surroundings, system_index
from reprobuild.services import read_services
from reprobuild.snapshot.model import Package


class ImageDecision(Struct, frozen=True, kw_only=True):
    """The image that was decided on, for a platform and its architecture in Debian's words; `roots` are packages."""

    reference: str
    platform: str
    architecture: str
    roots: tuple[str, ...]


def lock_image_base(
    image: ImageDecision, packages: tuple[Package, ...], settings: Iterable[Setting], decisions: Decisions,
    around: Surroundings,
) -> tuple[Base, tuple[Ruling, ...]]:  # fmt: skip
    """Bring an image into the store, and choose what is put over it.

    Raises:
        UsageError: the decision is no reference. FetchError: the image cannot be had. LockError: it is not for this
        platform, no system that packages can be put over, or lacks what cannot be had.
    """
    reference = parse_reference(image.reference)
    around.say(f"system: the image {reference}, from its registry")
    hub = read_services(decisions.services)["docker-hub"].url
    found = find_image(reference, image.platform, around.net, around.store, hub)
    fetch([layer.file for layer in found.image.layers], around.store, around.net)
    system = read_system(found.image, around.store, image.architecture)
    index = _index(system, image.architecture, around)
    base, rulings = resolve_image_base(
        found.image, system, index, Wanted(packages=packages, roots=image.roots, drop=decisions.drop)
    )
    kept, variables = inherit_environment(found.variables, settings, decisions.drop)
    assert base.image is not None
    with_variables = msgspec.structs.replace(base.image, environment=kept)
    return msgspec.structs.replace(base, image=with_variables), (*rulings, *variables)


def _index(system: ImageSystem, architecture: str, around: Surroundings) -> SystemIndex:
    """Return the packages of an image's release; where this machine has no source of them, none."""
    try:
        return system_index(system.distribution, system.release, architecture, around)
    except LockError as err:
        around.say(f"{err}: only what the image has can be used")
        return SystemIndex(system.distribution, system.release, (), architecture)


def installed_interpreter(base: Base, interpreter: Interpreter) -> Interpreter:
    """Return the interpreter with the version that the base has, where an image's stands in for the captured one."""
    name = interpreter.executable.rpartition("/")[2]
    found = re.match(r"(?:\d+:)?(\d+\.\d+\.\d+)", base.installed.get(name, ""))
    if base.image is None or found is None or found[1] == interpreter.version:
        return interpreter
    evidence = f"{base.image.reference} has {name} {found[1]}; {interpreter.evidence}"
    return msgspec.structs.replace(interpreter, version=found[1], evidence=evidence)
