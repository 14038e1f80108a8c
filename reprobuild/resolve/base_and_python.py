"""The choice of base and interpreter, which depend on each other.

The source of the Python decides the packages of the base.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

import msgspec
from msgspec import Struct

from reprobuild.config.overrides import Decisions
from reprobuild.ecosystems.apt.apt_config import configured_releases
from reprobuild.ecosystems.apt.index import SystemIndex
from reprobuild.ecosystems.oci_registry.reference import is_image
from reprobuild.ecosystems.pypi.files import FileLists
from reprobuild.errors import FetchError, LockError
from reprobuild.lock.model import Resolution
from reprobuild.lock.python import Interpreter
from reprobuild.lock.system import Base
from reprobuild.resolve.conda.packages import Conda
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.environment.triage import EnvDecision
from reprobuild.resolve.interpreter.captured import adopt_captured_interpreter
from reprobuild.resolve.interpreter.choice import (
    Find,
    InterpreterChoice,
    finalise_interpreter,
    format_build_version,
    make_standalone,
    propose_any_patch,
    try_choose_build,
    with_build,
)
from reprobuild.resolve.interpreter.evidence import PythonEvidence
from reprobuild.resolve.interpreter.local import find_local
from reprobuild.resolve.interpreter.standalone import Build, NoBuildError, find_build
from reprobuild.resolve.python.context import filter_index_lines
from reprobuild.resolve.python.debian_names import find_freeze_packages
from reprobuild.resolve.python.unreachable import check_availability
from reprobuild.resolve.python.wheel_glibc import find_wheel_glibc
from reprobuild.resolve.system.base import BaseRequest, ReleaseBase
from reprobuild.resolve.system.base_fallback import ReleaseNeed, choose_default_release, derive_release_need
from reprobuild.resolve.system.image import ImageBase, ImageDecision
from reprobuild.resolve.system.release import DistributionRelease, infer_release
from reprobuild.snapshot.model import Requirement, Snapshot

# The packages of the base that a Python from elsewhere needs: libc6, and the time zones of zoneinfo, which the
# distribution's own depends on.
_NEEDED = ("libc6", "tzdata")


class ResolveRequest(Struct, frozen=True, kw_only=True):
    """The input of a resolution: snapshot, decisions, and derived facts.

    `evidence` is that for the interpreter. `lines` are those of the freeze that an index has. `architecture` is in
    Debian's spelling, `machine` in the kernel's.
    """

    snapshot: Snapshot
    decisions: Decisions
    platform: str
    architecture: str
    machine: str
    evidence: PythonEvidence
    interpreter: Interpreter
    triage: EnvDecision
    lines: tuple[Requirement, ...]
    conda: Conda | None = None


class BaseProvider(Protocol):
    """The source of a base's packages.

    `roots` are packages that the rest of the lock needs.
    """

    index: SystemIndex
    roots: tuple[str, ...]

    def pin(
        self,
        libraries: Mapping[str, str] = MappingProxyType({}),
        called: Mapping[str, str] = MappingProxyType({}),
    ) -> tuple[Base, tuple[Resolution, ...]]:
        """Choose the packages of the base.

        `called` are captured packages that code calls, each with its caller.
        """

    def has(self, name: str) -> bool:
        """Return whether there is a package of a name."""

    def distributions(self, minor: str) -> Mapping[str, str]:
        """Return {name: version} of pip's packages for the base's Python.

        The Python is `X.Y`.
        """


class ResolvedBase(Struct, frozen=True, kw_only=True):
    """The interpreter, the base, and the resolutions of its packages.

    `system` is the source of the base, for packages that are needed later; `rulings` are the interpreter's. `listed`
    are system packages that cover lines of the freeze, each with a reason. `lost` has the error of a Python that is
    unavailable.
    """

    system: BaseProvider
    interpreter: Interpreter
    rulings: tuple[Resolution, ...]
    base: Base
    packages: tuple[Resolution, ...]
    listed: dict[str, str] = {}
    lost: tuple[LockError, ...] = ()


def find_base_and_python(subject: ResolveRequest, files: FileLists, context: ResolveContext) -> ResolvedBase:
    """Choose interpreter and base.

    The interpreter is the distribution's own Python if it is the captured one, else a build of it.

    Raises:
        LockError: no suitable release, image or Python is available.
    """

    def find(version: str) -> Build:
        try:
            return find_build(version, subject.machine, context)
        except NoBuildError as err:
            return find_local(version, subject.snapshot.reports, subject.machine, err, context)

    choice = try_choose_build(_select_interpreter(subject, context), subject.evidence, find)
    try:
        choice, system = _choose_provider(subject, choice, find, files, context)
        freeze_packages = find_freeze_packages(subject.snapshot.requirements)
        base, packages = system.pin(called=freeze_packages)
    except (LockError, FetchError) as err:
        check_availability((choice.lost, err) if choice.lost else (), (), ())
        raise
    settled = finalise_interpreter(choice, base, subject.evidence, find)
    if settled.interpreter.kind != choice.interpreter.kind:
        system.roots = _roots(subject, settled.interpreter)
        base, packages = system.pin(called=freeze_packages)
    return ResolvedBase(
        system=system, interpreter=settled.interpreter, rulings=settled.rulings, base=base,
        packages=packages, listed=freeze_packages, lost=(settled.lost,) if settled.lost else (),
    )  # fmt: skip


def _select_interpreter(subject: ResolveRequest, context: ResolveContext) -> Interpreter:
    """Return the packed interpreter of the snapshot, or the chosen one.

    The chosen one is used if there is no packed one, or if the user overrides it.
    """
    captured = subject.snapshot.captured
    packed = captured.interpreter if captured else None
    if not packed or subject.conda:
        return subject.interpreter
    if subject.decisions.python:
        context.say(f"python: the captured Python {packed.version} is not used, because `--python` was given")
        return subject.interpreter
    return adopt_captured_interpreter(subject.snapshot, subject.machine, context) or subject.interpreter


def _roots(subject: ResolveRequest, interpreter: Interpreter) -> tuple[str, ...]:
    is_system = interpreter.kind == "system"
    return (
        *((f"python{interpreter.minor}",) if is_system else _NEEDED),
        *subject.triage.packages,
        *subject.decisions.packages,
    )


def _choose_provider(
    subject: ResolveRequest, choice: InterpreterChoice, find: Find, files: FileLists, context: ResolveContext
) -> tuple[InterpreterChoice, BaseProvider]:
    """Return the interpreter choice and the base's source.

    The source is an image, the captured release, or a replacement.

    If it has no Python of the wanted minor version, the choice becomes a standalone build.
    """
    snapshot, decisions = subject.snapshot, subject.decisions
    system: BaseProvider
    if decisions.base and is_image(decisions.base):
        roots = _roots(subject, choice.interpreter)
        image = ImageDecision(platform=subject.platform, architecture=subject.architecture, roots=roots)
        system = ImageBase(snapshot, image, subject.triage.settings, decisions, context)
    else:
        if snapshot.packages or decisions.base:
            release = infer_release(snapshot.packages, decisions.base)
        else:
            choice, release = _default_release(subject, choice, find, files, context)
        context.say(
            f"system: the packages of {release.distribution} {release.codename}, from this machine's apt sources"
        )
        roots = _roots(subject, choice.interpreter)
        system = ReleaseBase(
            snapshot,
            BaseRequest(release=release, architecture=subject.architecture, roots=roots),
            decisions,
            context,
        )
    interpreter = choice.interpreter
    if (
        not snapshot.packages
        and interpreter.kind == "system"
        and not system.has(f"python{interpreter.minor}")
    ):
        choice = try_choose_build(make_standalone(interpreter), subject.evidence, find)
        system.roots = _roots(subject, choice.interpreter)
    return choice, system


def _default_release(
    subject: ResolveRequest, choice: InterpreterChoice, find: Find, files: FileLists, context: ResolveContext
) -> tuple[InterpreterChoice, DistributionRelease]:
    """Return the replacement release, with the interpreter choice.

    If no release has that Python, any other suitable one is used, for a standalone build.
    """
    lines = filter_index_lines(subject.lines, context.services)
    of_wheels = find_wheel_glibc(lines, choice.interpreter, files, subject.machine)
    need = derive_release_need(subject.snapshot, choice.interpreter, of_wheels)
    need = need.with_conda(*subject.conda.glibc) if subject.conda else need
    offered = configured_releases(context.env, subject.architecture)
    try:
        return choice, choose_default_release(need, offered)
    except LockError as err:
        if not need.python:
            raise
        try:
            build = find(format_build_version(choice.interpreter))
        except NoBuildError as none:
            hint = propose_any_patch(choice.interpreter, subject.evidence, err.hint)
            lost = LockError(f"{err}; {none}", **hint)
            return InterpreterChoice(
                interpreter=make_standalone(choice.interpreter), lost=lost
            ), choose_default_release(_without_python(need), offered)
        interpreter = with_build(choice.interpreter, build)
        return InterpreterChoice(interpreter=interpreter), choose_default_release(
            _without_python(need), offered
        )


def _without_python(need: ReleaseNeed) -> ReleaseNeed:
    return msgspec.structs.replace(need, python="")
