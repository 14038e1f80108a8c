"""Captured packages that this machine's mirror no longer has: where else they are looked for, in order.

The own store; the dated archives, as they were when the captured machine last ran `apt update`, then at the moments
when they had each version; Launchpad, by name and version; the pool of the mirror, by name and version; files that the
user gives. What none of them has is named, with where it was looked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from reprobuild.apt.dated import instant
from reprobuild.apt.index import PackagesFile, SystemIndex
from reprobuild.errors import FetchError
from reprobuild.resolve.past import Past
from reprobuild.resolve.shelves import Shelf
from reprobuild.resolve.when import Moment, Sample, claims_of, find_version, infer_moment
from reprobuild.snapshot.model import Package

# A file is in the pool before an index names it; archives are written a few times a day.
_SOON = (0, 6 * 3600, 12 * 3600, 24 * 3600, 48 * 3600)
_BEFORE_ALL = 1_199_145_600  # 2008-01-01: before any release that is supported


class Found(Struct, frozen=True, kw_only=True):
    """Where a captured version was found; not `vouched` where no signed index names the file."""

    label: str
    vouched: bool = True


class Search:
    """One search for the packages of a snapshot.

    Args:
        packages: the whole captured list.
        index: what this machine's mirror has.
        past: the dated archives; None where there are none for the release.
        shelves: what else is asked, in order.
        now: seconds since 1970.
        hints: moments that better evidence names.
        first_seen: tells when files of a version were first seen, for versions that were there for hours alone.
        say: told each step that takes time.
    """

    def __init__(
        self, packages: Sequence[Package], index: SystemIndex, past: Past | None, shelves: Sequence[Shelf], *, now: int,
        hints: Iterable[int] = (), first_seen: Callable[[str, str], Sequence[int]] | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:  # fmt: skip
        self._packages, self._past, self._shelves = packages, past, shelves
        self._now, self._hints, self._say = now, tuple(hints), say
        self._first_seen = first_seen
        self._mirror = index
        self._native = index.architecture
        self._asked = False
        self._tried: set[tuple[str, str]] = set()
        self.moment: Moment | None = None
        self.found: dict[tuple[str, str, str], Found] = {}
        self.looked: dict[tuple[str, str], list[str]] = {}

    def at(self, line: int) -> Package | None:
        """Return the package of a line of the list."""
        return next((package for package in self._packages if package.place.line == line), None)

    def more(self, wanted: Sequence[Package], index: SystemIndex) -> SystemIndex | None:
        """Return the index with what could be found of the wanted packages, None where nothing was left to try."""
        if not self._asked and wanted:
            self._asked = True
            self._say(
                f"system: {len(wanted)} captured versions are not on this machine's mirror; looking for them"
            )
            whole = self._then()
            if whole:
                # What was not captured shall be of that moment, too, not of today.
                return index.with_files(whole, over=True)
        left = [package for package in wanted if self._key(package) not in self._tried]
        if not left:
            return None
        files = [file for package in left for file in self._one(package)]
        return index.with_files(files) if files else None

    def begin(self, index: SystemIndex) -> SystemIndex | None:
        """Return the index with the archives of the moment of the last `apt update`, None where none is known.

        What was not captured shall be of that moment, too, not of today.
        """
        self._asked = True
        whole = self._then()
        return index.with_files(whole, over=True) if whole else None

    def _then(self) -> tuple[PackagesFile, ...]:
        """Infer the moment of the last `apt update`, and return the archives' indexes of then."""
        if self._past is None:
            return ()
        claims = claims_of(self._packages, self._native)
        self.moment = infer_moment(claims, self._past.look, _BEFORE_ALL, self._now, self._hints)
        for url, reason in self._past.silent.items():
            self._say(f"system: the archive {url} is left out: {reason}")
        if self.moment is None:  # without a list, the present is as good as any moment
            return () if claims else self._past.whole(self._now)
        self._say(f"system: {describe(self.moment)}")
        whole = self._past.whole(self.moment.time)
        for package in self._packages:
            sample = self._past.look(self.moment.time)
            if sample and package.version in sample.versions.get(self._place(package), ()):
                label = f"the archive of {instant(self.moment.time)}"
                self.found.setdefault(self._file_key(package), Found(label=label))
        return whole

    def _one(self, package: Package) -> tuple[PackagesFile, ...]:
        """Look for one version everywhere, and return what says where it is."""
        self._tried.add(self._key(package))
        looked = self.looked.setdefault(self._key(package), ["this machine's mirror"])
        for shelf in self._shelves:
            if shelf.before_past and (found := self._ask(shelf, package, looked)):
                return found
        if found := self._then_there(package, looked):
            return found
        for shelf in self._shelves:
            if not shelf.before_past and (found := self._ask(shelf, package, looked)):
                return found
        return ()

    def _then_there(self, package: Package, looked: list[str]) -> tuple[PackagesFile, ...]:
        """Look for a moment at which the dated archives had a version."""
        if self._past is None:
            return ()
        if self.moment is None:
            looked.append("the dated archives (none answered)")
            return ()
        looked.append("the dated archives")
        end = min(self._now, self.moment.before or self._now)
        place, version = self._place(package), package.version
        sample = find_version(place, version, self._past.look, _BEFORE_ALL, end, self._past.samples)
        if sample is None:
            sample = self._briefly_there(package, looked)
        if sample is None:
            return ()
        self.found[self._file_key(package)] = Found(label=f"the archive of {instant(sample.time)}")
        return self._past.stanzas(sample.time, package.name, version)

    def _briefly_there(self, package: Package, looked: list[str]) -> Sample | None:
        """Look where the archives saw the version first: it may have been there for hours alone."""
        if self._past is None or self._first_seen is None:
            return None
        try:
            times = self._first_seen(package.name, package.version)
        except FetchError as err:
            self._first_seen = None  # asked once, not for each package again
            looked.append(f"the dates of files ({err})")
            return None
        for time in (seen + later for seen in times for later in _SOON):
            sample = self._past.look(time)
            if sample and package.version in sample.versions.get(self._place(package), ()):
                return sample
        return None

    def _ask(self, shelf: Shelf, package: Package, looked: list[str]) -> tuple[PackagesFile, ...]:
        try:
            found = shelf.find(package, self._mirror)
        except FetchError as err:
            looked.append(f"{shelf.label} ({err})")
            return ()
        looked.append(shelf.label)
        if found is None:
            return ()
        self.found[self._file_key(package)] = Found(label=shelf.label, vouched=shelf.vouched)
        return (found,)

    def _place(self, package: Package) -> tuple[str, str]:
        return package.name, self._native if package.architecture == "all" else package.architecture

    @staticmethod
    def _key(package: Package) -> tuple[str, str]:
        return package.name, package.architecture

    @staticmethod
    def _file_key(package: Package) -> tuple[str, str, str]:
        return package.name, package.version, package.architecture


def describe(moment: Moment) -> str:
    """Return in words when the captured machine last ran `apt update`, and how sure that is."""
    bounds = [
        f"{word} {instant(time)}"
        for word, time in (("after", moment.after), ("before", moment.before))
        if time
    ]
    between = f", {' and '.join(bounds)}" if bounds else ""
    return (
        f"the last `apt update` was about {instant(moment.time)}{between}: {moment.agreeing} of {moment.claims} lines "
        f"agree ({moment.confidence:.0%})"
    )
