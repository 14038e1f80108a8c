"""Lines of a freeze beside conda's packages: those that a package covers, and packages of pip in conda's lists."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct
from packaging.utils import canonicalize_name

from reprobuild.config.overrides import is_named
from reprobuild.ecosystems.conda.package import Facts
from reprobuild.ecosystems.pypi.versions import same_version
from reprobuild.lock.model import Outcome, Resolution
from reprobuild.lock.requirements import UNLISTED
from reprobuild.resolve.conda.files import Chosen
from reprobuild.resolve.line_resolutions import make_resolution
from reprobuild.snapshot.file_kinds import has_freeze
from reprobuild.snapshot.model import CapturedCondaPackage, Requirement, Snapshot, SourceLocation
from reprobuild.snapshot.parsers.conda_list import PYPI


class LocatedPackage(Struct, frozen=True, kw_only=True):
    """A package of conda's lists, its file, and the facts in the file.

    A list in flow style has several packages at one place, so a place identifies none of them.
    """

    captured: CapturedCondaPackage
    choice: Chosen
    facts: Facts


class CoveredLines:
    """The lines of the freeze that conda's packages cover.

    `others` are left for pip's own wheels. `replaced` are those of them that pip installed over a package, by the
    package. `distributions` are {project: version} of the packages that no line replaces.

    Args:
        packages: those of conda's lists that have a file.
        of_pip: the names of pip's packages in these lists.
        lines: those of the freeze, and of `list_unfrozen_lines`.
    """

    def __init__(
        self, packages: Sequence[LocatedPackage], of_pip: Collection[str], lines: Sequence[Requirement]
    ) -> None:
        by_name = {
            canonicalize_name(name): (package, version)
            for package in packages
            for name, version in package.facts.distributions.items()
        }
        self.others: list[Requirement] = []
        self._covered: list[tuple[Requirement, LocatedPackage]] = []
        self.replaced: dict[CapturedCondaPackage, Requirement] = {}
        self.distributions = {str(name): version for name, (_, version) in by_name.items()}
        for line in lines:
            name = canonicalize_name(line.name)
            package, version = by_name.get(name, (None, ""))
            if package is None:
                self.others.append(line)
            elif line.kind in ("editable", "vcs") or name in of_pip or not _is_same_package(line, version):
                self.others.append(line)
                self.replaced[package.captured] = line
                self.distributions.pop(name)
            else:
                self._covered.append((line, package))

    def rulings(self) -> Iterator[Resolution]:
        """Yield a resolution for each line covered by a conda package."""
        for line, package in self._covered:
            reason = f"of conda: {package.choice.file.filename} ({package.captured.place})"
            yield make_resolution(line, "pinned", reason, "conda")


def _is_same_package(line: Requirement, version: str) -> bool:
    """Return whether a line belongs to a conda package.

    A build path of conda shows it, even if conda's version differs.
    """
    return line.kind == "conda" or line.version is None or same_version(line.version, version)


def list_unfrozen_lines(snapshot: Snapshot, drop: Collection[str]) -> Iterator[Requirement]:
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


def resolve_pip_packages(snapshot: Snapshot, drop: Collection[str]) -> Iterator[Resolution]:
    """Yield the resolutions of pip's and dropped packages.

    They are packages in conda's lists.
    """
    frozen = _freeze_names(snapshot)
    for package in snapshot.conda:
        if is_named(package.name, drop):
            yield resolve_package(package.place, package.name, "excluded", "dropped by decision", "decision")
        elif package.channel == PYPI and (has_freeze(snapshot) or canonicalize_name(package.name) in frozen):
            if canonicalize_name(package.name) in frozen:
                reason = "pip's: the freeze says what becomes of it"
                yield resolve_package(package.place, package.name, "excluded", reason, "conda")
            elif canonicalize_name(package.name) not in UNLISTED:  # `list_unfrozen_lines` yields those
                reason = f"{package.version} of pip, which the freeze does not have"
                yield resolve_package(package.place, package.name, "unresolved", reason, "conda-package")


def resolve_package(place: SourceLocation, name: str, outcome: Outcome, reason: str, kind: str) -> Resolution:
    """Return the resolution of a package in conda's lists."""
    return Resolution(
        file=place.file, line=place.line, subject=name, outcome=outcome, reason=reason, kind=kind
    )
