"""The search for captured packages missing from the mirror.

The sources are searched in order.

They are the own store; the dated archives, at the moment of the captured machine's last `apt update`, then at the
moments at which they had each version; Launchpad, by name and version; the pool of the mirror, by name and version;
files that the user gives. A version that is in no source is reported, with the searched sources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import TypeVar

from msgspec import structs

from reprobuild.ecosystems.apt.index import PackagesFile, SystemIndex
from reprobuild.ecosystems.apt.snapshot_archive import format_instant
from reprobuild.errors import FetchError
from reprobuild.lock.system import dpkg_name
from reprobuild.resolve.system.apt_update_time import (
    Key,
    Moment,
    Sample,
    claims_of,
    find_version,
    infer_moment,
)
from reprobuild.resolve.system.fallback_sources import FoundVersion, PackageSource
from reprobuild.resolve.system.snapshot_archives import CurrentArchives, Past, SilentError
from reprobuild.snapshot.model import SystemPackage

T = TypeVar("T")
# A file is in the pool before an index names it; archives are written a few times a day.
_SOON = (0, 6 * 3600, 12 * 3600, 24 * 3600, 48 * 3600)
_MOST_MOMENTS = 60  # that are tried for one version; each costs requests to every archive


class Search:
    """One search for the packages of a snapshot.

    Args:
        packages: the whole captured list.
        index: the packages of this machine's mirror.
        past: the dated archives; None if the release has no dated archives.
        present: the archives without dates, beside this machine's sources.
        shelves: further sources, in order.
        now: seconds since 1970.
        hints: moments with better evidence.
        first_seen: returns the times at which files of a version were first seen, for versions that existed for only
            hours.
        say: logs each step that takes time.
    """

    def __init__(
        self, packages: Sequence[SystemPackage], index: SystemIndex, past: Past | None,
        shelves: Sequence[PackageSource], *,
        now: int, hints: Iterable[int] = (), first_seen: Callable[[str, str], Sequence[int]] | None = None,
        say: Callable[[str], None] = lambda _: None, present: CurrentArchives | None = None,
    ) -> None:  # fmt: skip
        self._packages, self._past, self._shelves = packages, past, shelves
        self._present = present
        self._now, self._hints, self._say = now, tuple(hints), say
        self._first_seen = first_seen
        self._mirror = index
        self._native = index.architecture
        self._asked = False
        self._tried: set[tuple[str, str]] = set()
        self.moment: Moment | None = None
        self.found: dict[tuple[str, str, str], FoundVersion] = {}
        self.looked: dict[tuple[str, str], list[str]] = {}

    @property
    def silent(self) -> dict[str, str]:
        """The archives that did not answer, each with the reason."""
        return {
            url: why
            for archives in (self._past, self._present)
            if archives
            for url, why in archives.silent.items()
        }

    def find_line(self, line: int) -> SystemPackage | None:
        """Return the package of a line of the list."""
        return next((package for package in self._packages if package.place.line == line), None)

    def extend_index(self, packages: Sequence[SystemPackage], index: SystemIndex) -> SystemIndex | None:
        """Return the index with found packages, or None.

        It is None if all sources were tried.
        """
        if not self._asked and packages:
            self._say(
                f"system: {len(packages)} captured versions are not on this machine's mirror; looking for them"
            )
            if (then := self.begin(index)) is not None:
                return then
        if packages and self._present and (whole := self._present.list_indexes()):
            # Unnamed packages are not taken from there: they must be of the same moment as the rest.
            return index.with_files(structs.replace(file, automatic=False) for file in whole)
        rest = [package for package in packages if self._key(package) not in self._tried]
        if not rest:
            return None
        files = [file for package in rest for file in self._search_version(package)]
        return index.with_files(files) if files else None

    def begin(self, index: SystemIndex) -> SystemIndex | None:
        """Return the index with archives of the last `apt update`.

        Return None if no such archive is known.

        Packages that were not captured must be of that moment, too, not of today.
        """
        self._asked = True
        whole = self._infer_indexes()
        return index.with_files(whole, over=True) if whole else None

    def now(self, index: SystemIndex) -> SystemIndex | None:
        """Return the index with current archives, None if all are silent."""
        files = self._present.list_indexes() if self._present else ()
        return index.with_files(files) if files else None

    def _infer_indexes(self) -> tuple[PackagesFile, ...]:
        """Infer the last `apt update`; return the indexes of then."""
        past = self._past
        if past is None:
            return ()
        claims = claims_of(self._packages, self._native)
        self.moment = self._query_archives(
            lambda: infer_moment(claims, past.find_offer, self._now, self._hints)
        )
        if self.moment is None:  # without a list, the present is as good as any moment
            return () if claims else self._query_archives(lambda: past.list_indexes(self._now)) or ()
        self._say(f"system: {describe_moment(self.moment)}")
        time = self.moment.time
        sample = self._query_archives(lambda: past.find_offer(time))
        for package in self._packages:
            offered = sample.versions.get(self._place(package), ()) if sample else ()
            if package.version in offered and not self._on_mirror(package):
                self.found.setdefault(
                    self._file_key(package), FoundVersion(label=f"the archive of {format_instant(time)}")
                )
        return self._query_archives(lambda: past.list_indexes(time)) or ()

    def _query_archives(self, question: Callable[[], T]) -> T | None:
        """Query the dated archives, without those that fall silent.

        Return None if no archive is left.
        """
        past = self._past
        while past is not None and past.answers:
            before = set(past.silent)
            try:
                return question()
            except SilentError:
                for url in past.silent.keys() - before:
                    self._say(f"system: the archive {url} is left out: {past.silent[url]}")
        return None

    def _search_version(self, package: SystemPackage) -> tuple[PackagesFile, ...]:
        """Search all sources for one version; return its entries."""
        self._tried.add(self._key(package))
        looked = self.looked.setdefault(self._key(package), ["this machine's mirror"])
        for shelf in self._shelves:
            if shelf.before_past and (files := self._ask(shelf, package, looked)):
                return files
        if files := self._search_archives(package, looked):
            return files
        for shelf in self._shelves:
            if not shelf.before_past and (files := self._ask(shelf, package, looked)):
                return files
        return ()

    def _search_archives(self, package: SystemPackage, looked: list[str]) -> tuple[PackagesFile, ...]:
        """Search for a moment at which the dated archives had a version."""
        past = self._past
        if past is None:
            return ()
        if self.moment is None:
            looked.append("the dated archives (none answered)" if not past.answers else "the dated archives")
            return ()
        place, version = self._place(package), package.version
        end = min(self._now, self.moment.before or self._now)
        sample = self._query_archives(
            lambda: find_version(place, version, past.find_offer, end, past.samples)
        )
        sample = sample or self._search_first_sighting(package, looked)
        silent = "".join(f", without {url}" for url in past.silent)
        looked.append(f"the dated archives{silent}")
        if sample is None:
            return ()
        time = sample.time
        self.found[self._file_key(package)] = FoundVersion(label=f"the archive of {format_instant(time)}")
        return self._query_archives(lambda: past.stanzas(time, package.name, version)) or ()

    def _search_first_sighting(self, package: SystemPackage, looked: list[str]) -> Sample | None:
        """Search near the first sighting of a version.

        The version may have existed for only hours.
        """
        past = self._past
        if past is None or self._first_seen is None:
            return None
        try:
            times = self._first_seen(package.name, package.version)
        except FetchError as err:
            self._first_seen = None  # tried once, not again for each package
            looked.append(f"the dates of files ({err})")
            return None
        moments = dict.fromkeys(sighting + later for sighting in sorted(times) for later in _SOON)
        for time in islice(moments, _MOST_MOMENTS):
            sample = self._query_archives(partial(past.find_offer, time))
            if sample and package.version in sample.versions.get(self._place(package), ()):
                return sample
        return None

    def _ask(
        self, shelf: PackageSource, package: SystemPackage, looked: list[str]
    ) -> tuple[PackagesFile, ...]:
        try:
            answer = shelf.find(package, self._mirror)
        except FetchError as err:
            looked.append(f"{shelf.label} ({err})")
            return ()
        looked.append(shelf.label)
        if answer is None:
            return ()
        file, where = answer
        if where.label:
            self.found[self._file_key(package)] = where
        return (file,)

    def _on_mirror(self, package: SystemPackage) -> bool:
        versions = self._mirror.versions(dpkg_name(package.name, package.architecture, self._native))
        return any(candidate.version == package.version for candidate in versions)

    def _place(self, package: SystemPackage) -> Key:
        return package.name, self._native if package.architecture == "all" else package.architecture

    @staticmethod
    def _key(package: SystemPackage) -> tuple[str, str]:
        return package.name, package.architecture

    @staticmethod
    def _file_key(package: SystemPackage) -> tuple[str, str, str]:
        return package.name, package.version, package.architecture


def describe_moment(moment: Moment) -> str:
    """Describe the last `apt update`, and the confidence in it."""
    bounds = [
        f"{word} {format_instant(time)}"
        for word, time in (("after", moment.after), ("before", moment.before))
        if time
    ]
    between = f", {' and '.join(bounds)}" if bounds else ""
    return (
        f"the last `apt update` was about {format_instant(moment.time)}{between}: {moment.agreeing} of "
        f"{moment.claims} lines "
        f"agree ({moment.confidence:.0%})"
    )
