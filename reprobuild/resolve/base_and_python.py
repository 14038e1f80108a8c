"""The base and the interpreter, which decide each other: whose Python it is tells what the base must have."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

import msgspec
from msgspec import Struct

from reprobuild.config.overrides import Decisions
from reprobuild.config.services import read_services
from reprobuild.ecosystems.apt.apt_config import configured_releases
from reprobuild.ecosystems.apt.index import SystemIndex
from reprobuild.ecosystems.oci_registry.reference import is_image
from reprobuild.ecosystems.pypi.files import FileLists
from reprobuild.errors import FetchError, LockError
from reprobuild.lock.lock import Base, Interpreter, Ruling
from reprobuild.resolve.conda.packages import Conda
from reprobuild.resolve.context import Surroundings
from reprobuild.resolve.environment.triage import Triage
from reprobuild.resolve.interpreter.captured import take_captured
from reprobuild.resolve.interpreter.choice import (
    Choice,
    Find,
    brought,
    requested,
    settle,
    standalone,
    with_build,
)
from reprobuild.resolve.interpreter.local import find_local
from reprobuild.resolve.interpreter.standalone import Build, NoBuild, find_build
from reprobuild.resolve.python.context import asked_of_indexes
from reprobuild.resolve.python.debian_names import packages_of
from reprobuild.resolve.python.unreachable import refuse_lost
from reprobuild.resolve.system.base import System, Wanted
from reprobuild.resolve.system.base_fallback import Need, default_release, what_is_needed
from reprobuild.resolve.system.image import ImageBase, ImageDecision
from reprobuild.resolve.system.release import Release, infer_release
from reprobuild.snapshot.model import Requirement, Snapshot

# What a Python that the base does not bring needs of it: libc6, and the time zones of zoneinfo, on which the
# distribution's own depends.
_NEEDED = ("libc6", "tzdata")


class Subject(Struct, frozen=True, kw_only=True):
    """What is resolved: the snapshot and the decisions, and what follows from them alone.

    `lines` are those of the freeze that an index has. `architecture` is in Debian's words, `machine` in the kernel's.
    """

    snapshot: Snapshot
    decisions: Decisions
    platform: str
    architecture: str
    machine: str
    interpreter: Interpreter
    triage: Triage
    lines: tuple[Requirement, ...]
    conda: Conda | None = None


class Packages(Protocol):
    """Where the packages of a base come from; `roots` are those that the rest of the lock needs."""

    index: SystemIndex
    roots: tuple[str, ...]

    def pin(
        self,
        libraries: Mapping[str, str] = MappingProxyType({}),
        called: Mapping[str, str] = MappingProxyType({}),
    ) -> tuple[Base, tuple[Ruling, ...]]:
        """Choose the packages of the base; `called` are captured ones that code calls, each with who calls."""

    def has(self, name: str) -> bool:
        """Tell whether there is a package of a name."""

    def distributions(self, minor: str) -> Mapping[str, str]:
        """Return {name: version} of what pip installed for the base's own Python `X.Y`."""


class Ground(Struct, frozen=True, kw_only=True):
    """What an environment stands on: the interpreter, the base, and the rulings of its packages.

    `system` is where the base comes from, for packages that are asked for later; `rulings` are the interpreter's.
    `listed` are names of system packages that bring lines of the freeze, each with why. `lost` has the error of a
    Python that cannot be had.
    """

    system: Packages
    interpreter: Interpreter
    rulings: tuple[Ruling, ...]
    base: Base
    packages: tuple[Ruling, ...]
    listed: dict[str, str] = {}
    lost: tuple[LockError, ...] = ()


def find_ground(subject: Subject, files: FileLists, around: Surroundings) -> Ground:
    """Choose interpreter and base: the distribution's own Python where it is the captured one, else a build of it.

    Raises:
        LockError: no release, no image or no Python that fits can be had.
    """

    def find(version: str) -> Build:
        try:
            return find_build(version, subject.machine, around)
        except NoBuild as err:
            return find_local(version, subject.snapshot.reports, subject.machine, err, around)

    snapshot = subject.snapshot
    choice = brought(_wanted(subject, around), snapshot, find)
    try:
        choice, system = _system(subject, choice, find, files, around)
        listed = _listed(snapshot)
        base, packages = system.pin(called=listed)
    except (LockError, FetchError) as err:
        refuse_lost((choice.lost, err) if choice.lost else (), (), ())
        raise
    settled = settle(choice, base, snapshot, find)
    if settled.interpreter.kind != choice.interpreter.kind:
        system.roots = _roots(subject, settled.interpreter)
        base, packages = system.pin(called=listed)
    return Ground(
        system=system, interpreter=settled.interpreter, rulings=settled.rulings, base=base,
        packages=packages, listed=listed, lost=(settled.lost,) if settled.lost else (),
    )  # fmt: skip


def _wanted(subject: Subject, around: Surroundings) -> Interpreter:
    """Return the interpreter that the snapshot holds; the chosen one where it holds none, or the user's word counts."""
    captured = subject.snapshot.captured
    packed = captured.interpreter if captured else None
    if not packed or subject.conda:
        return subject.interpreter
    if subject.decisions.python:
        around.say(f"python: the captured Python {packed.version} is not used, because `--python` was given")
        return subject.interpreter
    return take_captured(subject.snapshot, subject.machine, around) or subject.interpreter


def _listed(snapshot: Snapshot) -> dict[str, str]:
    return {package: "the freeze" for line in snapshot.requirements for package in packages_of(line.name)}


def _roots(subject: Subject, interpreter: Interpreter) -> tuple[str, ...]:
    own = interpreter.kind == "system"
    return (
        *((f"python{interpreter.minor}",) if own else _NEEDED),
        *subject.triage.packages,
        *subject.decisions.packages,
    )


def _system(
    subject: Subject, choice: Choice, find: Find, files: FileLists, around: Surroundings
) -> tuple[Choice, Packages]:
    """Return where the base comes from: an image, the captured release, or the one that stands in.

    Where it has no Python of the wanted minor version, the choice becomes a standalone build.
    """
    snapshot, decisions = subject.snapshot, subject.decisions
    system: Packages
    if decisions.base and is_image(decisions.base):
        roots = _roots(subject, choice.interpreter)
        image = ImageDecision(platform=subject.platform, architecture=subject.architecture, roots=roots)
        system = ImageBase(snapshot, image, subject.triage.settings, decisions, around)
    else:
        if snapshot.packages or decisions.base:
            release = infer_release(snapshot.packages, decisions.base)
        else:
            choice, release = _default_release(subject, choice, find, files, around)
        around.say(
            f"system: the packages of {release.distribution} {release.codename}, from this machine's apt sources"
        )
        roots = _roots(subject, choice.interpreter)
        system = System(
            snapshot,
            Wanted(release=release, architecture=subject.architecture, roots=roots),
            decisions,
            around,
        )
    own = choice.interpreter
    if not snapshot.packages and own.kind == "system" and not system.has(f"python{own.minor}"):
        choice = brought(standalone(own), snapshot, find)
        system.roots = _roots(subject, choice.interpreter)
    return choice, system


def _default_release(
    subject: Subject, choice: Choice, find: Find, files: FileLists, around: Surroundings
) -> tuple[Choice, Release]:
    """Return the release that stands in; where none has that Python, any that fits else, for a standalone build."""
    lines = asked_of_indexes(subject.lines, read_services(subject.decisions.services))
    need = what_is_needed(subject.snapshot, choice.interpreter, lines, files, subject.machine)
    need = need.with_conda(*subject.conda.glibc) if subject.conda else need
    offered = configured_releases(around.env, subject.architecture)
    try:
        return choice, default_release(need, offered)
    except LockError as err:
        if not need.python:
            raise
        try:
            build = find(requested(choice.interpreter))
        except NoBuild as none:
            lost = LockError(f"{err}; {none}", hint=err.hint)
            return Choice(interpreter=standalone(choice.interpreter), lost=lost), default_release(
                _without_python(need), offered
            )
        found = with_build(choice.interpreter, build)
        return Choice(interpreter=found), default_release(_without_python(need), offered)


def _without_python(need: Need) -> Need:
    return msgspec.structs.replace(need, python="")
