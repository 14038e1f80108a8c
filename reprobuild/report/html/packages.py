"""The section on the image's contents.

It has distributions, sources, conda's and system packages, with an index of letters and a search.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from reprobuild.lock.model import Lock
from reprobuild.lock.system import Base
from reprobuild.report.html.components import Section, code_element, fold, short_digest, table
from reprobuild.report.html.markup import Html, join, tag

# A list below this length needs no letters.
LETTERS_FROM = 30
_OF = {"Python": "Python", "Conda": "conda", "System": "the system"}
HEAD = ("name", "version", "from", "sha256")


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


def render_packages(lock: Lock) -> Section:
    """Return every package of the image."""
    lists = {
        "Python": sorted(_python_rows(lock), key=lambda package: package.name.lower()),
        "Conda": [
            PackageRow(name=p.name, version=p.version, origin=f"{p.channel} {p.build}", sha256=p.file.sha256)
            for p in lock.conda
        ],
        "System": sorted(_system_rows(lock.base), key=lambda package: package.name.lower()),
    }
    parts = [
        _render_search(),
        *(_render_list(name, package_rows) for name, package_rows in lists.items() if package_rows),
    ]
    if lock.sources:
        parts.insert(1, _render_sources(lock))
    system = f"{lock.base.distribution} {lock.base.release}, {lock.platform}"
    amounts = [
        f"{len(package_rows):,} of {_OF[name]}" for name, package_rows in lists.items() if package_rows
    ]
    lead = f"Python {lock.interpreter.version} on {system}. Packages: {', '.join(amounts) or 'none'}. "
    lead += "The lock has each by its sha256."
    return Section(id="packages", title="Packages", lead=lead, parts=tuple(parts))


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


def _render_sources(lock: Lock) -> Html:
    rows = [
        (
            code_element(source.name), code_element(source.commit[:12]), "changed" if source.patch else "as committed",
            code_element(source.path), "editable" if source.editable else "",
        )
        for source in lock.sources
    ]  # fmt: skip
    return table("Sources", ("name", "commit", "changes", "place", ""), rows, shown=True)


def _render_search() -> Html:
    """Return the search field, which the script shows.

    Without the script, the letters and the browser's own search are enough.
    """
    label = tag("label", "Find a package", for_="find")
    field = tag("input", id="find", type="search", autocomplete="off", spellcheck="false")
    return tag("p", label, " ", field, " ", tag("output", id="found", for_="find"), id="search", hidden="")


def _render_list(name: str, package_rows: Sequence[PackageRow]) -> Html:
    """Return one list, with a heading for each letter if it is long."""
    id_ = f"packages-{name.lower()}"
    if len(package_rows) < LETTERS_FROM:
        return fold(
            f"{name} packages",
            _render_rows(f"{name} packages", package_rows),
            count=len(package_rows),
            id_=id_,
        )
    letters: dict[str, list[PackageRow]] = {}
    for package in package_rows:
        letters.setdefault(package.letter, []).append(package)
    jumps = [
        tag("a", "0-9" if letter == "0" else letter.upper(), href=f"#{id_}-{letter}",
            aria_label=f"{name} packages that begin with {letter}")
        for letter in sorted(letters)
    ]  # fmt: skip
    blocks = [
        join((
            tag("h4", "0-9" if letter == "0" else letter.upper(), id=f"{id_}-{letter}"),
            _render_rows(f"{name} packages, {letter}", letters[letter]),
        ))
        for letter in sorted(letters)
    ]  # fmt: skip
    nav = tag("nav", join(jumps, " "), class_="letters", aria_label=f"{name} packages by letter")
    return join((nav, fold(f"{name} packages", *blocks, count=len(package_rows), id_=id_)))


def _render_rows(caption: str, package_rows: Iterable[PackageRow]) -> Html:
    rows = [(p.name, p.version, p.origin, short_digest(p.sha256)) for p in package_rows]
    return table(caption, HEAD, rows, kind="packages")
