"""Resolution of a snapshot's conda packages.

Each line leads to its exact package, and to the lines of the freeze that it covers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from msgspec import Struct
from packaging.utils import canonicalize_name

from reprobuild.config.overrides import Decisions, is_named
from reprobuild.ecosystems.conda.channels import ChannelResolver
from reprobuild.ecosystems.conda.conda_config import read_channels
from reprobuild.ecosystems.conda.linking import check_rattler
from reprobuild.ecosystems.conda.package import Facts, read_facts, split_filename
from reprobuild.ecosystems.conda.repodata import Repodata
from reprobuild.errors import FetchError, LockError
from reprobuild.infra.untrusted.strings import ProjectName, is_valid
from reprobuild.lock.model import Resolution
from reprobuild.lock.python import CondaPackage, Interpreter
from reprobuild.lock.system import PREFIX
from reprobuild.resolve.conda.channel_addresses import make_channel_resolver
from reprobuild.resolve.conda.environment import find_activation_variables
from reprobuild.resolve.conda.files import Chosen, CondaFiles, CondaRefusedError
from reprobuild.resolve.conda.freeze_lines import (
    CoveredLines,
    LocatedPackage,
    list_unfrozen_lines,
    resolve_package,
    resolve_pip_packages,
)
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.interpreter.evidence import FREE_THREADED, is_free_threaded
from reprobuild.resolve.not_installed import find_conda_python
from reprobuild.snapshot.model import CapturedCondaPackage, Requirement, Snapshot, SourceLocation
from reprobuild.snapshot.parsers.conda_list import PYPI
from reprobuild.store.fetch import fetch

WORKERS = 8
_GLIBC = re.compile(r"__glibc\s*>=?\s*(\d+)\.(\d+)")
Glibc = tuple[int, int]


class GlibcNeed(NamedTuple):
    """The oldest glibc for a package, and the package's place and name."""

    place: SourceLocation
    name: str
    glibc: Glibc


class Conda(Struct, frozen=True, kw_only=True):
    """The conda packages of the image, and the lines left for wheels.

    `rulings` has one for each package of conda's lists, and one for each line of the freeze that a package of conda
    covers; `lines` are the others. `needs` is the oldest glibc for each package that states one.
    `activated` are {variable: package} that scripts of packages set when the environment is activated. `distributions`
    are {project: version} of the packages' projects that no line of `lines` replaces. `lost` has an error for each
    unavailable channel or file; then `packages` is empty.
    """

    packages: tuple[CondaPackage, ...]
    rulings: tuple[Resolution, ...]
    lines: tuple[Requirement, ...]
    interpreter: Interpreter
    needs: tuple[GlibcNeed, ...] = ()
    activated: dict[str, str] = {}
    distributions: dict[str, str] = {}
    lost: tuple[FetchError, ...] = ()

    def too_new(self, glibc: Glibc) -> Iterator[Resolution]:
        """Yield a resolution for each package that needs a newer glibc.

        `glibc` is that of the base.
        """
        for need in self.needs:
            if need.glibc > glibc:
                reason = (
                    f"it needs glibc {need.glibc[0]}.{need.glibc[1]}, and the base has {glibc[0]}.{glibc[1]}"
                )
                yield resolve_package(need.place, need.name, "unresolved", reason, "newer-library")

    @property
    def glibc(self) -> tuple[Glibc, str]:
        """The oldest glibc for all packages, and the evidence."""
        needs = ((need.glibc, f"conda's {need.name}, {need.place}") for need in self.needs)
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
    resolver = make_channel_resolver(channels, context.services)
    chosen, refused, lost = _choose_files(packages, resolver, platform, context)
    if lost:
        names = {canonicalize_name(package.name) for package in packages}
        return Conda(
            packages=(), rulings=(*resolve_pip_packages(snapshot, drop), *refused), lost=lost,
            lines=tuple(line for line in lines if canonicalize_name(line.name) not in names),
            interpreter=_conda_interpreter(python, minor, None, packages),
        )  # fmt: skip
    located = _read_packages(chosen, context)
    of_pip = {canonicalize_name(package.name) for package in snapshot.conda if package.channel == PYPI}
    covered = CoveredLines(located, of_pip, [*lines, *list_unfrozen_lines(snapshot, drop)])
    rulings = [
        *resolve_pip_packages(snapshot, drop), *refused,
        *(_pin_package(package, covered) for package in located), *covered.rulings(),
    ]  # fmt: skip
    of_python = next((choice for package, choice in chosen if package == python), None)
    return Conda(
        packages=tuple(_conda_package(package) for package in located), rulings=tuple(rulings),
        lines=tuple(covered.others), interpreter=_conda_interpreter(python, minor, of_python, packages),
        needs=tuple(GlibcNeed(package.captured.place, package.facts.index.name, needed)
                    for package in located if (needed := _required_glibc(package.facts))),
        activated=find_activation_variables(located, context), distributions=covered.distributions,
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


def _choose_files(
    packages: Sequence[CapturedCondaPackage],
    meaning: ChannelResolver,
    platform: str,
    context: ResolveContext,
) -> tuple[list[tuple[CapturedCondaPackage, Chosen]], list[Resolution], tuple[FetchError, ...]]:
    """Return packages with their files, resolutions of refused packages, and errors.

    Each package has one of them. Equal errors, of a channel that does not answer, are one.
    """
    chosen: list[tuple[CapturedCondaPackage, Chosen]] = []
    refused: list[Resolution] = []
    lost: dict[str, FetchError] = {}
    with context.store.scratch() as scratch:
        files = CondaFiles(meaning, platform, Repodata(context.net, scratch), context.net, context.store)
        files.prepare(packages)

        def find(package: CapturedCondaPackage) -> Chosen | Resolution | FetchError:
            try:
                return files.find(package)
            except CondaRefusedError as err:
                return resolve_package(package.place, package.name, "unresolved", str(err), err.kind)
            except FetchError as err:
                if context.net.offline:
                    raise
                return err

        with ThreadPoolExecutor(WORKERS) as pool:
            for package, result in zip(packages, pool.map(find, packages), strict=True):
                if isinstance(result, Chosen):
                    chosen.append((package, result))
                elif isinstance(result, Resolution):
                    refused.append(result)
                else:
                    lost.setdefault(str(result), result)
    return chosen, refused, tuple(lost.values())


def _read_packages(
    chosen: Sequence[tuple[CapturedCondaPackage, Chosen]], context: ResolveContext
) -> list[LocatedPackage]:
    """Fetch the files of packages, and read their facts."""
    fetch([choice.file for _, choice in chosen], context.store, context.net, context.progress)

    def read(pair: tuple[CapturedCondaPackage, Chosen]) -> LocatedPackage:
        file = pair[1].file
        facts = read_facts(context.store.verified(file.sha256, file.filename), file.filename)
        return LocatedPackage(captured=pair[0], choice=pair[1], facts=facts)

    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(read, chosen))


def _conda_package(package: LocatedPackage) -> CondaPackage:
    index, choice = package.facts.index, package.choice
    return CondaPackage(
        name=index.name, version=index.version, build=index.build, subdir=choice.subdir,
        channel=choice.channel, file=choice.file,
        distributions=tuple(sorted(_project_names(package.facts.distributions))),
    )  # fmt: skip


def _project_names(names: Iterable[str]) -> set[str]:
    """Return the valid project names.

    A metadata directory can have a name that is not valid for a project.
    """
    return {str(canonicalize_name(name)) for name in names if is_valid(name, ProjectName)}


def _required_glibc(facts: Facts) -> Glibc | None:
    needs = [match for text in facts.index.depends if (match := _GLIBC.match(text))]
    return max(((int(match[1]), int(match[2])) for match in needs), default=None)


def _pin_package(package: LocatedPackage, covered: CoveredLines) -> Resolution:
    captured = package.captured
    line = covered.replaced.get(captured)
    reason = package.choice.reason
    if "pre-link" in package.facts.scripts:
        reason += "; its script that conda runs before linking is not run"
    if line is not None:
        reason += f"; pip installed {line.name} over it ({line.place}), and conda's record of it goes"
        return resolve_package(captured.place, captured.name, "excluded", reason, "conda")
    return resolve_package(captured.place, captured.name, "pinned", reason, "conda")
