"""The releases of a project that were on an index by a moment, if the index publishes no upload times.

A series are the releases with the same first two numbers. Within a major version the series begin in their order, and
within a series the releases come in theirs. So a search finds the newest series that had begun; from it downwards, the
last release of each series is dated, and all releases if the last was not there. Below two series in a row that were
complete, older ones count as complete. docs/proof.md has how often these rules are right.

A release without evidence counts only if a later one of its series was there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor

from msgspec import Struct
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
)
from packaging.version import InvalidVersion, Version

from reprobuild.ecosystems.pypi.page_cache import ListedFile
from reprobuild.infra.untrusted.wheels import read_wheel_filename
from reprobuild.resolve.ages.age import Age

MOST_RELEASES = 5000  # of one project
_COMPLETE = 2  # series in a row whose last release was there
_MAJORS = 8  # major versions that are searched at once
DateRelease = Callable[[Sequence[ListedFile], str], Age]


class DatedReleases(Struct, frozen=True, kw_only=True):
    """The releases of a project by a moment.

    `present` has the evidence of each in words, `unknown` those without evidence; both by version.
    """

    present: Mapping[Version, str] = {}
    unknown: tuple[Version, ...] = ()


def group_files(files: Iterable[ListedFile]) -> dict[Version, list[ListedFile]]:
    """Return the files of each version; other files are left out."""
    groups: dict[Version, list[ListedFile]] = {}
    for file in files:
        version = parse_version(file.filename)
        if version is not None and (version in groups or len(groups) < MOST_RELEASES):
            groups.setdefault(version, []).append(file)
    return groups


def parse_version(filename: str) -> Version | None:
    """Return the version in the name of a wheel or a source archive, or None."""
    parsed = _parse_filename(filename)
    return parsed[1] if parsed else None


def is_file_of(filename: str, project: str) -> bool:
    """Tell whether a wheel or a source archive has the name of a project, which is canonical."""
    parsed = _parse_filename(filename)
    return parsed is not None and canonicalize_name(parsed[0]) == project


def _parse_filename(filename: str) -> tuple[str, Version] | None:
    try:
        if filename.endswith(".whl"):
            return read_wheel_filename(filename)[:2]
        return parse_sdist_filename(filename)
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
        return None


def date_releases(
    groups: Mapping[Version, Sequence[ListedFile]], moment: int, date: DateRelease, pool: Executor
) -> DatedReleases:
    """Return the releases that were there by a moment.

    Args:
        groups: the files of each version. Versions before a final one are left out if there is a final one.
        moment: in seconds since 1970.
        date: returns the age of one version.
        pool: runs `date` for several versions at once.
    """
    final = [version for version in groups if not version.is_prerelease]
    majors: dict[tuple[int, int], dict[tuple[int, ...], list[Version]]] = {}
    for version in sorted(final or groups):
        series = majors.setdefault((version.epoch, version.major), {})
        series.setdefault(version.release[:2], []).append(version)
    searches = [_Search(list(series.values()), groups, moment, date, pool) for series in majors.values()]
    with ThreadPoolExecutor(_MAJORS) as waiting:
        list(waiting.map(_Search.run, searches))
    return DatedReleases(
        present={version: words for search in searches for version, words in search.present.items()},
        unknown=tuple(version for search in searches for version in search.unknown),
    )


class _Search:
    """The search among the series of one major version."""

    def __init__(
        self, series: Sequence[Sequence[Version]], groups: Mapping[Version, Sequence[ListedFile]], moment: int,
        date: DateRelease, pool: Executor,
    ) -> None:  # fmt: skip
        self._series, self._groups, self._moment = series, groups, moment
        self._date, self._pool = date, pool
        self._ages: dict[Version, Age] = {}
        self.present: dict[Version, str] = {}
        self.unknown: list[Version] = []

    def run(self) -> None:
        """Fill `present` and `unknown`."""
        complete = 0
        words = ""
        for row in reversed(self._series[: self._count_begun()]):
            if complete < _COMPLETE:
                if self._sides(row[-1:])[0] < 0:
                    complete += 1
                    words = f"{row[-1]} was there: {self._ages[row[-1]].words}"
                    self._mark(row, words)
                else:
                    complete = 0
                    self._judge(row)
            else:
                self._mark(row, words)

    def _count_begun(self) -> int:
        """Return the number of series whose first release was perhaps there."""
        low, high = 0, len(self._series)
        while low < high:
            middle = (low + high) // 2
            if self._sides(self._series[middle][:1])[0] > 0:
                high = middle
            else:
                low = middle + 1
        return low

    def _sides(self, versions: Sequence[Version]) -> list[int]:
        missing = [version for version in versions if version not in self._ages]
        dated = self._pool.map(lambda version: self._date(self._groups[version], str(version)), missing)
        self._ages.update(zip(missing, dated, strict=True))
        return [self._ages[version].side(self._moment) for version in versions]

    def _mark(self, row: Iterable[Version], words: str) -> None:
        for version in row:
            age = self._ages.get(version)
            self.present[version] = age.words if age and age.side(self._moment) < 0 else words

    def _judge(self, row: Sequence[Version]) -> None:
        """Date each release of a series."""
        sides = self._sides(row)
        for number, version in enumerate(row):
            later = next((place for place in range(number + 1, len(row)) if sides[place] < 0), None)
            if sides[number] < 0:
                self._mark([version], "")
            elif sides[number] > 0 or any(side > 0 for side in sides[:number]):
                continue
            elif later is not None:
                self._mark([version], f"{row[later]} was there: {self._ages[row[later]].words}")
            else:
                self.unknown.append(version)
