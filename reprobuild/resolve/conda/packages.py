"""Resolution of a snapshot's conda packages.

Each line leads to its exact package, and to the lines of the freeze that it covers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct
from packaging.utils import canonicalize_name

from reprobuild.config.overrides import Decisions, is_named
from reprobuild.config.services import Service, read_services
from reprobuild.ecosystems.conda.channels import ChannelResolver
from reprobuild.ecosystems.conda.conda_config import Channels, read_channels
from reprobuild.ecosystems.conda.linking import check_rattler
from reprobuild.ecosystems.conda.package import Facts, read_facts, split_filename
from reprobuild.ecosystems.conda.repodata import Repodata
from reprobuild.ecosystems.pypi.versions import same_version
from reprobuild.errors import FetchError, LockError
from reprobuild.infra.untrusted.strings import ProjectName, is_valid
from reprobuild.lock.model import Outcome, Resolution
from reprobuild.lock.python import CondaPackage, Interpreter
from reprobuild.lock.requirements import UNLISTED
from reprobuild.lock.system import PREFIX
from reprobuild.resolve.conda.environment import find_activation_variables
from reprobuild.resolve.conda.files import Chosen, CondaFiles, CondaRefusedError
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.interpreter.evidence import FREE_THREADED, is_free_threaded
from reprobuild.resolve.line_resolutions import make_resolution
from reprobuild.resolve.not_installed import find_conda_python
from reprobuild.snapshot.file_kinds import has_freeze
from reprobuild.snapshot.model import CapturedCondaPackage, Requirement, Snapshot, SourceLocation
from reprobuild.snapshot.parsers.conda_list import PYPI
from reprobuild.store.fetch import fetch

WORKERS = 8
_GLIBC = re.compile(r"__glibc\s*>=?\s*(\d+)\.(\d+)")
Glibc = tuple[int, int]


class Conda(Struct, frozen=True, kw_only=True):
    """The conda packages of the image, and the lines left for wheels.

    `rulings` has one for each package of conda's lists, and one for each line of the freeze that a package of conda
    covers; `lines` are the others. `needs` is the oldest glibc for each package, by its place, if it states one.
    `activated` are {variable: package} that scripts of packages set when the environment is activated. `distributions`
    are {project: version} of the packages' projects that no line of `lines` replaces. `lost` has an error for each
    unavailable channel or file; then `packages` is empty.
    """

    packages: tuple[CondaPackage, ...]
    rulings: tuple[Resolution, ...]
    lines: tuple[Requirement, ...]
    interpreter: Interpreter
    needs: dict[SourceLocation, tuple[str, Glibc]] = {}
    activated: dict[str, str] = {}
    distributions: dict[str, str] = {}
    lost: tuple[FetchError, ...] = ()

    def too_new(self, glibc: Glibc) -> Iterator[Resolution]:
        """Yield a resolution for each package that needs a newer glibc.

        `glibc` is that of the base.
        """
        for place, (name, needed) in self.needs.items():
            if needed > glibc:
                reason = f"it needs glibc {needed[0]}.{needed[1]}, and the base has {glibc[0]}.{glibc[1]}"
                yield _make_resolution(place, name, "unresolved", reason, "newer-library")

    @property
    def glibc(self) -> tuple[Glibc, str]:
        """The oldest glibc for all packages, and the evidence."""
        needs = ((needed, f"conda's {name}, {place}") for place, (name, needed) in self.needs.items())
        return max(needs, default=((0, 0), "nothing tells one"))


def resolve_conda(
    snapshot: Snapshot,
    decisions: Decisions,
    platform: str,
    lines: Sequence[Requirement],
    context: ResolveContext,
) -> Conda | None:
    """Resolve the packages of a conda environment.

    Return None if the image is to have none.

    Args:
        snapshot: the captured environment.
        decisions: `channels` come before those of the machine; packages in `drop` stay out.
        platform: of the image.
        lines: those of the freeze, without the dropped ones.
        context: the network and the store, which has all packages afterwards.

    Raises:
        EngineError: rattler is missing. LockError: a package of Python or a file of settings is not valid.
        FetchError: the network is forbidden, or a file is unavailable. BuildError: a package is malicious or damaged.
    """
    python = find_conda_python(snapshot, decisions)
    if python is None:
        return None
    minor, drop = _minor_version(python), decisions.drop
    packages = [
        package for package in snapshot.conda if package.channel != PYPI and not is_named(package.name, drop)
    ]
    check_rattler()
    channels = read_channels(context.env, decisions.channels)
    context.net.learn(channels.credentials, channels.tokens, channels.addresses)
    context.say(f"conda: {len(packages)} packages")
    resolver = _make_channel_resolver(channels, context.services)
    chosen, refused, lost = _choose_files(packages, resolver, platform, context)
    if lost:
        names = {canonicalize_name(package.name) for package in packages}
        return Conda(
            packages=(), rulings=(*_resolve_pip_packages(snapshot, drop), *refused.values()), lost=lost,
            lines=tuple(line for line in lines if canonicalize_name(line.name) not in names),
            interpreter=_conda_interpreter(python, minor, None, packages),
        )  # fmt: skip
    fetch([choice.file for choice in chosen.values()], context.store, context.net, context.progress)
    with ThreadPoolExecutor(WORKERS) as pool:
        read = list(pool.map(lambda choice: _package_facts(choice, context), chosen.values()))
    facts = dict(zip(chosen, read, strict=True))
    of_pip = {canonicalize_name(package.name) for package in snapshot.conda if package.channel == PYPI}
    distributions = {place: package_facts.distributions for place, package_facts in facts.items()}
    answered = _Answered(distributions, packages, of_pip, [*lines, *_list_unfrozen_lines(snapshot, drop)])
    rulings = [
        *_resolve_pip_packages(snapshot, drop),
        *(refused[package.place] for package in packages if package.place in refused),
        *(_pin_package(package, chosen[package.place], facts[package.place], answered)
          for package in packages if package.place in chosen),
        *answered.rulings(chosen),
    ]  # fmt: skip
    interpreter = _conda_interpreter(python, minor, chosen.get(python.place), packages)
    return Conda(
        packages=tuple(_conda_package(choice, facts[place]) for place, choice in chosen.items()),
        rulings=tuple(rulings), lines=tuple(answered.others), interpreter=interpreter,
        needs={place: (package_facts.index.name, needed) for place, package_facts in facts.items()
               if (needed := _required_glibc(package_facts))},
        activated=find_activation_variables(chosen, facts, context), distributions=answered.distributions,
    )  # fmt: skip


def _minor_version(python: CapturedCondaPackage) -> str:
    minor = re.match(r"3\.\d+(?=\.)", python.version)
    if minor is None:
        raise LockError(
            f"{python.place}: conda's python {python.version} is no version of Python 3",
            hint="name the one to use instead, for wheels: --python X.Y.Z",
        )
    return minor[0]


def _conda_interpreter(
    python: CapturedCondaPackage,
    minor: str,
    chosen: Chosen | None,
    packages: Sequence[CapturedCondaPackage],
) -> Interpreter:
    """Return conda's interpreter.

    If the list has no build, the found file decides.
    """
    evidence = f"conda's python {python.version} {python.build or ''}".rstrip() + f", {python.place}"
    names = split_filename(chosen.file.filename) if chosen else None
    built = bool(names and FREE_THREADED.search(names[2]))
    free = "t" * (built or is_free_threaded(python, packages))
    return Interpreter(
        version=python.version, executable=f"{PREFIX}/bin/python{minor}{free}", evidence=evidence, kind="conda",
    )  # fmt: skip


def _make_channel_resolver(channels: Channels, services: Mapping[str, Service]) -> ChannelResolver:
    shipped = read_services({})
    public, defaults = "conda-channels", "conda-defaults"
    known = (shipped[public].url, shipped[defaults].url)
    return ChannelResolver(channels, services[public].url, services[defaults].url, known)


def _choose_files(
    packages: Sequence[CapturedCondaPackage],
    meaning: ChannelResolver,
    platform: str,
    context: ResolveContext,
) -> tuple[dict[SourceLocation, Chosen], dict[SourceLocation, Resolution], tuple[FetchError, ...]]:
    """Return files, resolutions of refused packages, and errors.

    There is an error for each place that does not answer.
    """
    chosen: dict[SourceLocation, Chosen] = {}
    refused: dict[SourceLocation, Resolution] = {}
    lost: dict[str, FetchError] = {}
    with context.store.scratch() as scratch:
        files = CondaFiles(meaning, platform, Repodata(context.net, scratch), context.net, context.store)
        files.prepare(packages)

        def find(package: CapturedCondaPackage) -> Chosen | Resolution | FetchError:
            try:
                return files.find(package)
            except CondaRefusedError as err:
                return _make_resolution(package.place, package.name, "unresolved", str(err), err.kind)
            except FetchError as err:
                if context.net.offline:
                    raise
                return err

        with ThreadPoolExecutor(WORKERS) as pool:
            for package, result in zip(packages, pool.map(find, packages), strict=True):
                if isinstance(result, Chosen):
                    chosen[package.place] = result
                elif isinstance(result, Resolution):
                    refused[package.place] = result
                else:
                    lost.setdefault(str(result), result)
    return chosen, refused, tuple(lost.values())


def _package_facts(chosen: Chosen, context: ResolveContext) -> Facts:
    filename = chosen.file.filename
    return read_facts(context.store.verified(chosen.file.sha256, filename), filename)


def _conda_package(chosen: Chosen, facts: Facts) -> CondaPackage:
    return CondaPackage(
        name=facts.index.name, version=facts.index.version, build=facts.index.build, subdir=chosen.subdir,
        channel=chosen.channel, file=chosen.file,
        distributions=tuple(sorted(_project_names(facts.distributions))),
    )  # fmt: skip


def _project_names(names: Iterable[str]) -> set[str]:
    """Return the valid project names.

    A metadata directory can have a name that is not valid for a project.
    """
    return {str(canonicalize_name(name)) for name in names if is_valid(name, ProjectName)}


def _required_glibc(facts: Facts) -> Glibc | None:
    needs = [match for text in facts.index.depends if (match := _GLIBC.match(text))]
    return max(((int(match[1]), int(match[2])) for match in needs), default=None)


def _list_unfrozen_lines(snapshot: Snapshot, drop: Collection[str]) -> Iterator[Requirement]:
    """Yield pip's packages that only conda's lists have.

    Without a freeze, these are all of them.
    """
    names = _freeze_names(snapshot)
    for package in snapshot.conda:
        name = canonicalize_name(package.name)
        pip_only = package.channel == PYPI and (not has_freeze(snapshot) or name in UNLISTED)
        if pip_only and name not in names and not is_named(package.name, drop):
            names.add(name)
            text = f"{package.name}=={package.version}"
            yield Requirement(
                place=package.place, text=text, kind="index", name=package.name, version=package.version
            )


def _freeze_names(snapshot: Snapshot) -> set[str]:
    return {canonicalize_name(line.name) for line in snapshot.requirements}


class _Answered:
    """The lines of the freeze that conda's packages cover.

    `others` are covered by pip's own wheels.
    """

    def __init__(
        self, distributions: dict[SourceLocation, dict[str, str]], packages: Sequence[CapturedCondaPackage],
        of_pip: Collection[str], lines: Sequence[Requirement],
    ) -> None:  # fmt: skip
        by_name = {
            canonicalize_name(name): (package, version)
            for package in packages
            for name, version in distributions.get(package.place, {}).items()
        }
        self.others: list[Requirement] = []
        self.answers: list[tuple[Requirement, CapturedCondaPackage]] = []
        self.replaced: dict[SourceLocation, Requirement] = {}
        self.distributions = {str(name): version for name, (_, version) in by_name.items()}
        for line in lines:
            name = canonicalize_name(line.name)
            package, version = by_name.get(name, (None, ""))
            if package is None:
                self.others.append(line)
            elif line.kind in ("editable", "vcs") or name in of_pip or not _is_same_package(line, version):
                self.others.append(line)
                self.replaced[package.place] = line
                self.distributions.pop(name)
            else:
                self.answers.append((line, package))

    def rulings(self, chosen: dict[SourceLocation, Chosen]) -> Iterator[Resolution]:
        """Yield a resolution for each line covered by a conda package."""
        for line, package in self.answers:
            reason = f"of conda: {chosen[package.place].file.filename} ({package.place})"
            yield make_resolution(line, "pinned", reason, "conda")


def _is_same_package(line: Requirement, version: str) -> bool:
    """Return whether a line belongs to a conda package.

    A build path of conda shows it, even if conda's version differs.
    """
    return line.kind == "conda" or line.version is None or same_version(line.version, version)


def _pin_package(
    package: CapturedCondaPackage, chosen: Chosen, facts: Facts, answered: _Answered
) -> Resolution:
    line = answered.replaced.get(package.place)
    reason = chosen.reason
    if "pre-link" in facts.scripts:
        reason += "; its script that conda runs before linking is not run"
    if line is not None:
        reason += f"; pip installed {line.name} over it ({line.place}), and conda's record of it goes"
        return _make_resolution(package.place, package.name, "excluded", reason, "conda")
    return _make_resolution(package.place, package.name, "pinned", reason, "conda")


def _resolve_pip_packages(snapshot: Snapshot, drop: Collection[str]) -> Iterator[Resolution]:
    """Yield the resolutions of pip's and dropped packages.

    They are packages in conda's lists.
    """
    frozen = _freeze_names(snapshot)
    for package in snapshot.conda:
        if is_named(package.name, drop):
            yield _make_resolution(package.place, package.name, "excluded", "dropped by decision", "decision")
        elif package.channel == PYPI and (has_freeze(snapshot) or canonicalize_name(package.name) in frozen):
            if canonicalize_name(package.name) in frozen:
                reason = "pip's: the freeze says what becomes of it"
                yield _make_resolution(package.place, package.name, "excluded", reason, "conda")
            elif canonicalize_name(package.name) not in UNLISTED:  # those are lines of their own: _unfrozen
                reason = f"{package.version} of pip, which the freeze does not have"
                yield _make_resolution(package.place, package.name, "unresolved", reason, "conda-package")


def _make_resolution(
    place: SourceLocation, name: str, outcome: Outcome, reason: str, kind: str
) -> Resolution:
    return Resolution(
        file=place.file, line=place.line, subject=name, outcome=outcome, reason=reason, kind=kind
    )
