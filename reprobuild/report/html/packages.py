"""The section on the image's contents.

It has distributions, sources, conda's and system packages, with an index of letters and a search.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from reprobuild.lock.model import Lock
from reprobuild.lock.python import Source
from reprobuild.lock.system import Base
from reprobuild.report.html.components import Section

# A list below this length needs no letters.
LETTERS_FROM = 30
_OF = {"Python": "Python", "Conda": "conda", "System": "the system"}


class PackageRow(Struct, frozen=True, kw_only=True):
    """One row of the table; `origin` is the kind of its file."""

    name: str
    version: str
    origin: str
    sha256: str

    @property
    def letter(self) -> str:
        """The letter of its group: a to z, or `0` for all others."""
        first = self.name[:1].lower()
        return first if first.isascii() and first.isalpha() else "0"


class PackageList(Struct, frozen=True, kw_only=True):
    """One list of packages; `letters` has the groups of a long list, by letter."""

    id: str
    name: str
    packages: Sequence[PackageRow]
    letters: Sequence[tuple[str, Sequence[PackageRow]]] = ()


class PackagesView(Struct, frozen=True, kw_only=True):
    """The sources, and each list with a package."""

    sources: Sequence[Source]
    lists: Sequence[PackageList]


def view_packages(lock: Lock) -> Section:
    """Return every package of the image."""
    rows = {
        "Python": sorted(_python_rows(lock), key=lambda package: package.name.lower()),
        "Conda": [
            PackageRow(name=p.name, version=p.version, origin=f"{p.channel} {p.build}", sha256=p.file.sha256)
            for p in lock.conda
        ],
        "System": sorted(_system_rows(lock.base), key=lambda package: package.name.lower()),
    }
    system = f"{lock.base.distribution} {lock.base.release}, {lock.platform}"
    amounts = [f"{len(packages):,} of {_OF[name]}" for name, packages in rows.items() if packages]
    lead = f"Python {lock.interpreter.version} on {system}. Packages: {', '.join(amounts) or 'none'}. "
    lead += "The lock has each by its sha256."
    lists = [_make_list(name, packages) for name, packages in rows.items() if packages]
    view = PackagesView(sources=lock.sources, lists=lists)
    return Section(id="packages", title="Packages", lead=lead, view=view)


def _python_rows(lock: Lock) -> Iterator[PackageRow]:
    for wheel in lock.wheels:
        if wheel.role == "environment":
            origin = f"wheel, withdrawn: {wheel.yanked}" if wheel.yanked else "wheel"
            yield PackageRow(name=wheel.name, version=wheel.version, origin=origin, sha256=wheel.file.sha256)
    for sdist in lock.sdists:
        origin = "source archive, built here"
        yield PackageRow(name=sdist.name, version=sdist.version, origin=origin, sha256=sdist.file.sha256)


def _system_rows(base: Base) -> Iterator[PackageRow]:
    native = base.native
    for deb in base.packages:
        foreign = f", {deb.architecture}" if deb.architecture not in (native, "all") else ""
        yield PackageRow(name=deb.name, version=deb.version, origin=f"deb{foreign}", sha256=deb.file.sha256)
    for package in base.image.packages if base.image else ():
        yield PackageRow(name=package.name, version=package.version, origin="base image", sha256="")


def _make_list(name: str, packages: Sequence[PackageRow]) -> PackageList:
    """Return one list, with a group for each letter if it is long."""
    letters: dict[str, list[PackageRow]] = {}
    for package in packages if len(packages) >= LETTERS_FROM else ():
        letters.setdefault(package.letter, []).append(package)
    groups = [(letter, letters[letter]) for letter in sorted(letters)]
    return PackageList(id=f"packages-{name.lower()}", name=name, packages=packages, letters=groups)
