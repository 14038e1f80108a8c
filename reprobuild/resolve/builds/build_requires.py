"""Resolution of build requirements: locked wheels for each project.

A freeze does not name them, so each is a choice, made once and kept in the lock: the captured version if it fits,
because a build links and compiles against it, else the newest that all requirements of the build allow. If uv chose
versions as of a moment, only releases of that moment count. For a project of conda, it is the wheel of the same
version, or with `environment` conda's own. Two projects may choose two versions of one.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from reprobuild.config.overrides import BuildDecision
from reprobuild.ecosystems.pypi.choose import find_newest
from reprobuild.ecosystems.pypi.files import FileLists
from reprobuild.ecosystems.pypi.requires import LONGEST, MOST, marker_environment, marker_holds
from reprobuild.ecosystems.pypi.target import WheelTarget
from reprobuild.ecosystems.pypi.versions import is_valid
from reprobuild.errors import BuildError, LockError
from reprobuild.infra.untrusted import zips
from reprobuild.infra.untrusted.metadata import read_metadata
from reprobuild.infra.untrusted.names import HOSTILE
from reprobuild.lock.model import Resolution
from reprobuild.lock.python import Building, Sdist, Source, Wheel
from reprobuild.lock.system import Artefact
from reprobuild.resolve.ages.past_releases import PastReleases
from reprobuild.resolve.builds.backends import find_backend_requirements, parse_requirement, requirements_of
from reprobuild.resolve.builds.compiling import PACKAGES, find_compiled_languages
from reprobuild.resolve.builds.extensions import Toolkit, add_known_settings, rule_nvcc
from reprobuild.resolve.builds.projects import Project, read_project
from reprobuild.resolve.builds.variables import build_variables
from reprobuild.store.store import Store

# Rounds of choosing until the result is stable; each chain of needs takes one for each of its links.
_ROUNDS = 60
# Requirements of one build, of all its wheels and their extras together; and conditions on the version of one project.
_MOST_SUM, _MOST_CONDITIONS = 20_000, 200  # packaging intersects their ranges in quadratic time
_SHOWN = 20  # requirements in a message


class ResolvedBuilds(Struct, frozen=True, kw_only=True):
    """Sources and archives with their builds, and the build wheels.

    The wheels have the role `build`.

    `packages` are system packages that compiling needs, each with the asking project; empty if no project compiles.
    `rulings` are on projects with CUDA sources that cannot be compiled.
    """

    sources: tuple[Source, ...]
    sdists: tuple[Sdist, ...]
    wheels: tuple[Wheel, ...]
    packages: dict[str, str]
    rulings: tuple[Resolution, ...] = ()


class BuildWheelSource:
    """A source of build wheels: captured ones first, then indexes.

    Args:
        files: the indexes.
        target: the target that a wheel must fit.
        store: has every wheel that was chosen.
        fetch: fetches one file into the store, so that its own needs can be read.
        captured: wheels of the environment.
        toolkit: the toolkit for compiling CUDA.
        linked: {project: version} of distributions from conda's packages.
        past: the releases of the moment as of which versions are chosen; None for those of today.
    """

    def __init__(
        self, files: FileLists, target: WheelTarget, store: Store, fetch: Callable[[Artefact], None],
        captured: Iterable[Wheel], toolkit: Toolkit | None = None, linked: Mapping[str, str] = MappingProxyType({}),
        past: PastReleases | None = None,
    ) -> None:  # fmt: skip
        self.target, self.store, self.fetch = target, store, fetch
        self.toolkit = toolkit or Toolkit()
        self._files = files
        self.captured = {str(canonicalize_name(wheel.name)): wheel for wheel in captured}
        self.linked, self._past = linked, past
        self._newest: dict[tuple[str, str], Wheel | None] = {}
        self._markers = marker_environment(target.python, target.machine)
        self._needs: dict[str, list[Requirement]] = {}
        self._holding: dict[tuple[str, str], list[Requirement]] = {}

    def pick(self, name: str, allowed: SpecifierSet) -> Wheel | None:
        """Return a project's wheel: the captured or newest allowed version.

        The result is None if there is no such wheel.
        """
        known = self.captured.get(name)
        if known is not None and allowed.contains(known.version, prereleases=True):
            return Wheel(name=name, version=known.version, role="build", file=known.file)
        if known is None and self.pinned(name, allowed):
            allowed = SpecifierSet(f"=={self.linked[name]}")
        key = (name, str(allowed))
        if key not in self._newest:
            among = self._past.find_versions(name) if self._past else None
            release = find_newest(name, str(allowed), self._files, self.target, among)
            self._newest[key] = (
                Wheel(name=name, version=release[0], role="build", file=release[1]) if release else None
            )
        return self._newest[key]

    def pinned(self, name: str, allowed: SpecifierSet) -> bool:
        """Return whether conda has an allowed version of a project."""
        version = self.linked.get(name, "")
        return is_valid(version) and allowed.contains(version, prereleases=True)

    def needs(self, wheel: Wheel, extra: str) -> tuple[list[Requirement], int]:
        """Return a wheel's requirements that hold with an extra, and the number of all.

        The extra `""` is none.
        """
        key = (wheel.file.sha256, extra)
        if wheel.file.sha256 not in self._needs:
            self.fetch(wheel.file)
            self._needs[wheel.file.sha256] = [
                parse_requirement(text, wheel.name) for text in _read_requirements(wheel, self.store)
            ]
        if key not in self._holding:
            self._holding[key] = self.holding(self._needs[wheel.file.sha256], extra)
        return self._holding[key], len(self._needs[wheel.file.sha256])

    def holding(self, requirements: Iterable[Requirement], extra: str = "") -> list[Requirement]:
        """Return the requirements whose markers hold."""
        return [
            requirement
            for requirement in requirements
            if marker_holds(requirement.marker, self._markers, extra)
        ]


def lock_build_wheels(
    sources: Iterable[Source],
    sdists: Iterable[Sdist],
    decided: Mapping[str, BuildDecision],
    shelf: BuildWheelSource,
) -> ResolvedBuilds:
    """Lock the wheels that each project's build needs.

    The requirements of these wheels are locked, too.

    Args:
        sources: trees in the store.
        sdists: archives that are locked.
        decided: the user's overrides, by project.
        shelf: the source of wheels.

    Raises:
        LockError: a requirement cannot be read or met, or a decision does not match a project.
        BuildError: an archive or a wheel is malicious or damaged.
    """
    choices = {str(canonicalize_name(name)): choice for name, choice in decided.items()}
    wheels: dict[str, Wheel] = {}
    packages: dict[str, str] = {}
    without_nvcc: list[Resolution | None] = []

    def with_building(source: Source | Sdist) -> Building:
        if isinstance(source, Sdist):
            shelf.fetch(source.file)
        project = read_project(source, shelf.store)
        choice = add_known_settings(project.name, choices.pop(project.name, BuildDecision()))
        chosen = _choose_wheels(project, choice, shelf)
        wheels.update({wheel.file.sha256: wheel for wheel in chosen.values()})
        compiles = find_compiled_languages(project)
        if compiles and "CUDA" in compiles.languages:
            without_nvcc.append(rule_nvcc(project.name, source.file.filename, choice, shelf.toolkit))
        needed = [*(compiles.packages if compiles else PACKAGES if choice.packages else ()), *choice.packages]
        packages.update(
            {name: f"{project.name}, which is compiled" for name in needed if name not in packages}
        )
        return Building(
            requires=tuple(sorted(wheel.file.sha256 for wheel in chosen.values())),
            environment=bool(choice.environment), compiles=bool(needed),
            variables=build_variables(project.name, choice),
        )  # fmt: skip

    resolved = ResolvedBuilds(
        sources=tuple(
            replace(source, building=with_building(source)) if source.installed else source
            for source in sources
        ),
        sdists=tuple(replace(sdist, building=with_building(sdist)) for sdist in sdists),
        wheels=tuple(wheels.values()),
        packages=packages,
        rulings=tuple(filter(None, without_nvcc)),
    )
    if choices:
        raise LockError(
            f"`build` names {', '.join(sorted(choices))}, and nothing of that name is built",
            hint="it is for projects that have no wheel: editable and version-control lines, and source archives",
        )
    return resolved


def _choose_wheels(project: Project, choice: BuildDecision, shelf: BuildWheelSource) -> dict[str, Wheel]:
    """Choose wheels until each fits all requirements of a build."""
    roots = [*requirements_of(project), *(parse_requirement(text, "`build`") for text in choice.requires)]
    chosen: dict[str, Wheel] = {}
    for _ in range(_ROUNDS):
        more = find_backend_requirements(project, {name: wheel.version for name, wheel in chosen.items()})
        demands_by_project = _collect_demands(project.name, [*roots, *more], chosen, shelf)
        if choice.environment:
            present = shelf.captured.keys() | shelf.linked.keys()
            demands_by_project = {
                name: demands for name, demands in demands_by_project.items() if name not in present
            }
        now = {
            name: _choose_wheel(name, demands, shelf, project.name)
            for name, demands in demands_by_project.items()
        }
        if now == chosen:
            return chosen
        chosen = now
    raise LockError(
        f"{project.name}: no set of wheels was found that suits all that its build needs",
        hint=f"name versions in reprobuild.yaml: build: {{{project.name}: {{requires: [...]}}}}",
    )


_Demands = dict[str, list[tuple[Requirement, str]]]


def _collect_demands(
    asker: str, roots: Sequence[Requirement], chosen: Mapping[str, Wheel], shelf: BuildWheelSource
) -> _Demands:
    """Return all requirements that hold, with their askers, by project.

    They are those of the roots, and of the chosen wheels.

    Raises:
        LockError: there are too many.
    """
    demands: _Demands = {}
    waiting = deque((root, asker) for root in shelf.holding(roots))
    visits: set[tuple[str, str]] = set()
    count = 0
    while waiting:
        requirement, who = waiting.popleft()
        name = str(canonicalize_name(requirement.name))
        demands.setdefault(name, []).append((requirement, who))
        for next_extra in ("", *sorted(requirement.extras)):
            if name in chosen and (name, next_extra) not in visits:
                visits.add((name, next_extra))
                holding, number = shelf.needs(chosen[name], next_extra)
                count += number
                if count > _MOST_SUM:
                    raise _size_error(asker, f"the wheels for it have more than {_MOST_SUM} requirements")
                waiting += [(need, name) for need in holding]
    return demands


def _size_error(project: str, problem: str) -> LockError:
    return LockError(
        f"{project} cannot be built: {problem}",
        hint=f"of a wheel with that many, take another version: build: {{{project}: {{requires: [...]}}}}",
    )


def _choose_wheel(
    name: str, demands: Sequence[tuple[Requirement, str]], shelf: BuildWheelSource, project: str
) -> Wheel:
    for requirement, who in demands:
        if requirement.url:
            raise LockError(
                f"{who} needs {requirement.name} from an address to be built, which is not known by its bytes",
                hint=f"name a version in its pyproject.toml, and put a wheel of it into pip's find-links; "
                f"of a wheel that needs it, take another version: build: {{{project}: {{requires: [...]}}}}",
            )
    conditions = dict.fromkeys(condition for requirement, _ in demands for condition in requirement.specifier)
    if len(conditions) > _MOST_CONDITIONS:
        raise _size_error(
            project, f"the wheels for it have more than {_MOST_CONDITIONS} conditions on {name}"
        )
    allowed = SpecifierSet(",".join(map(str, conditions)))  # at once: each `&` would copy the whole set
    wheel = shelf.pick(name, allowed)
    if wheel is None:
        words = ", and ".join(islice(dict.fromkeys(f"{who} needs {need}" for need, who in demands), _SHOWN))
        if shelf.pinned(name, allowed):
            raise LockError(
                f"{words} to be built, conda has the version {shelf.linked[name]}, and no index of this machine has "
                "a wheel of that",
                hint=f"build it with conda's own: build: {{{project}: {{environment: true}}}} in reprobuild.yaml; or "
                f"name another version there: {{requires: [{name}==VERSION]}}",
            )
        raise LockError(
            f"{words} to be built, and no index of this machine has a wheel that suits",
            hint="check the names in its pyproject.toml, and pip's indexes; of what is published without a wheel, put "
            "one that you built into a directory of pip's find-links",
        )
    return wheel


def _read_requirements(wheel: Wheel, store: Store) -> list[str]:
    origin = f"the wheel {wheel.file.filename}"
    with zips.open_zip(store.verified(wheel.file.sha256, wheel.file.filename), origin) as (archive, members):
        # Deeper ones may belong to other projects: setuptools has those of its vendored ones.
        metadata = [
            info for name, info in members.items() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name)
        ]
        try:
            raw = read_metadata(zips.read_text(archive, metadata[0], origin), origin)
        except (IndexError, *zips.UNREADABLE):
            raise BuildError(f"{origin} has no METADATA that can be read", hint=HOSTILE) from None
    requirements = raw.get("requires_dist", [])
    if len(requirements) > MOST:
        raise BuildError(
            f"{origin} has {len(requirements)} requirements, and at most {MOST} are read", hint=HOSTILE
        )
    if any(len(text) > LONGEST for text in requirements):
        raise BuildError(f"{origin} has a requirement of more than {LONGEST} characters", hint=HOSTILE)
    return requirements
