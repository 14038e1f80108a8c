"""The indexes of a run as uv sees them; evidence replaces missing upload times.

uv asks a server on the loopback interface alone. So it gets no login, and no page or archive beyond the bounds here.
A project whose index the user names is on one page more, and on no other.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager

from msgspec.structs import replace
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from reprobuild.ecosystems.pypi.files import FileLists
from reprobuild.ecosystems.pypi.indexes import PackageIndex
from reprobuild.ecosystems.pypi.json_page import ALL_FILES, FileFilter
from reprobuild.ecosystems.pypi.page_cache import ListedFile
from reprobuild.errors import FetchError
from reprobuild.resolve.ages.age import parse_time
from reprobuild.resolve.ages.evidence import AgeReader
from reprobuild.resolve.ages.loopback import PageServer
from reprobuild.resolve.ages.releases import date_releases, group_files, is_file_of
from reprobuild.resolve.context import ResolveContext
from reprobuild.snapshot.model import Requirement

_WORKERS = 24  # most of the time goes to waiting for servers
_SHOWN = 5  # versions in a message
_ASKED = 5  # projects whose pages show whether an index has upload times
_BEFORE = "2000-01-01T00:00:00Z"  # for uv: before every moment
_CAPTURED = "the snapshot has it"


class DatedIndexes:
    """The releases of each project by a moment, where an index publishes no upload times, and else all files.

    `addresses` has the loopback address of each index, by its own. `decided_address` has that of the projects whose
    index the user names; it is empty if there are none.

    Args:
        moment: in seconds since 1970; None for all releases, whose ages do not matter.
        lines: of the snapshot; their versions need no evidence.
        files: the lists of the indexes.
        context: the machine's indexes, the store and the network.
        pool: reads several files at once.
        target: the version of Python and the machine.
    """

    def __init__(
        self, moment: int | None, lines: Sequence[Requirement], files: FileLists, context: ResolveContext,
        pool: Executor, target: tuple[str, str],
    ) -> None:  # fmt: skip
        self._moment, self._files, self._pool = moment, files, pool
        self._countable = FileFilter(label=f"as of {moment}", also=self._may_count)
        self.reader = AgeReader(context.store, context.net, moment or context.now, context.now, target)
        self._tokens = context.indexes.tokens
        self._captured = {str(canonicalize_name(line.name)): line.version for line in lines if line.version}
        self.places = [
            place for place in context.indexes.places if not place.links and place.url.startswith("http")
        ]
        names = list(dict.fromkeys(line.name for line in lines if line.kind == "index"))[:_ASKED]
        self._timed = [place for place in self.places if moment is None or self._has_times(place, names)]
        self.addresses: Mapping[str, str] = {}
        self.decided_address = ""
        self.error: FetchError | None = None
        self._guard = threading.Lock()
        self._pages: dict[tuple[int, str], list[ListedFile]] = {}
        self._locks: dict[tuple[int, str], threading.Lock] = {}
        self._words: dict[tuple[str, Version], str] = {}
        self._unknown: dict[str, set[Version]] = {}

    @property
    def has_untimed(self) -> bool:
        """Whether ages matter, and an index publishes no upload times."""
        return len(self._timed) < len(self.places)

    def _has_times(self, place: PackageIndex, names: Sequence[str]) -> bool:
        """Return whether an index publishes upload times, as the first page with files shows."""
        for name in names:
            if page := self._files.list_page(place, name):
                return any(file.uploaded for file in page)
        return False

    def page(self, number: int, project: str) -> list[ListedFile]:
        """Return the files of a project by the moment, each with a time; empty for an unknown project."""
        place = self._place(number, project)
        if place is None:
            return []
        key = (number, project)
        with self._guard:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self._pages:
                try:
                    self._pages[key] = self._make_page(place, project)
                except FetchError as err:
                    self.error = self.error or err
                    self._pages[key] = []
            return self._pages[key]

    def _place(self, number: int, project: str) -> PackageIndex | None:
        """Return the index of a number, or None if a project may not come from it."""
        decided = self._files.decided_index(project)
        if number < len(self.places):
            return None if decided else self.places[number]
        return decided if number == len(self.places) else None

    def _make_page(self, place: PackageIndex, project: str) -> list[ListedFile]:
        if self._moment is None or self._is_timed(place, project):
            return self._list(place, project, self._countable)
        groups = group_files(self._list(place, project))
        if not groups:
            return []
        elsewhere: dict[Version, list[ListedFile]] = {}
        for other in self._timed:
            elsewhere.update(group_files(self._files.list_page(other, project)))
        dated = date_releases(
            groups,
            self._moment,
            lambda group, version: self.reader.date(group, version, elsewhere.get(Version(version), ())),
            self._pool,
        )
        present = dict(dated.present)
        captured = _parse(self._captured.get(project))
        for version in groups:  # uv is asked for a version without its local label
            if captured is not None and version.public == captured.public:
                present.setdefault(version, _CAPTURED)
        with self._guard:
            self._words.update({(project, version): words for version, words in present.items()})
            self._unknown.setdefault(project, set()).update(set(dated.unknown) - set(present))
        return [_with_time(file) for version in present for file in groups[version]]

    def _is_timed(self, place: PackageIndex, project: str) -> bool:
        """Tell whether an index publishes upload times; that of one project shows it there."""
        return place in self._timed or (place not in self.places and self._has_times(place, [project]))

    def _list(self, place: PackageIndex, project: str, selection: FileFilter = ALL_FILES) -> list[ListedFile]:
        """Return the files of a project; a directory or a page of links has those of others, too."""
        page = self._files.list_page(place, project, selection)
        return [file for file in page if is_file_of(file.filename, project)] if place.links else page

    def _may_count(self, filename: str, uploaded: str | None) -> bool:
        """Return whether uv may choose a file: most files of a page are newer, or for another system."""
        platform = filename.rpartition("-")[2] if filename.endswith(".whl") else "any"
        if "any" not in platform and "linux" not in platform:
            return False
        since = parse_time(uploaded or "")
        return since is None or self._moment is None or since <= self._moment

    def describe(self, name: str, version: str) -> str:
        """Return the evidence of a chosen release, and the newer ones without, as the end of a sentence."""
        parsed = _parse(version)
        words = self._words.get((name, parsed)) if parsed else None
        newer = sorted(other for other in self._unknown.get(name, ()) if parsed and other > parsed)
        more = f"; without evidence of their age: {_list_versions(newer)}" if newer else ""
        return f" ({words}{more})" if words else more and f" ({more.removeprefix('; ')})"

    def undated(self) -> list[str]:
        """Return each project with releases without evidence, and these in brackets."""
        return [
            f"{name} ({_list_versions(sorted(versions))})"
            for name, versions in sorted(self._unknown.items())
            if versions
        ]

    def restore(self, text: str) -> str:
        """Return a message of uv with the addresses of the indexes: not those of the loopback, and without tokens."""
        for url, address in (*self.addresses.items(), *self._tokens.items()):
            text = text.replace(address, url)
        return text


def _list_versions(versions: Sequence[Version]) -> str:
    more = f" and {len(versions) - _SHOWN} more" if len(versions) > _SHOWN else ""
    return ", ".join(map(str, versions[:_SHOWN])) + more


@contextmanager
def dated_indexes(
    moment: str,
    lines: Sequence[Requirement],
    files: FileLists,
    context: ResolveContext,
    target: tuple[str, str],
) -> Iterator[DatedIndexes]:
    """Yield the machine's indexes, which are served while the block runs.

    `moment` is of RFC 3339; empty for all releases.
    """
    seconds = (parse_time(moment) or 0) if moment else None
    with ThreadPoolExecutor(_WORKERS) as pool:
        dated = DatedIndexes(seconds, lines, files, context, pool, target)
        decided = files.has_decided_index()
        if not dated.places and not decided:
            yield dated
            return
        if dated.has_untimed:
            context.say("python: an index publishes no upload times: ages of releases come from their files")
        with PageServer(dated.page, dated.reader, context.store, context.net) as server:
            dated.addresses = {place.url: server.address(number) for number, place in enumerate(dated.places)}
            if decided:
                dated.decided_address = server.address(len(dated.places))
            yield dated


def _with_time(file: ListedFile) -> ListedFile:
    return file if parse_time(file.uploaded or "") is not None else replace(file, uploaded=_BEFORE)


def _parse(version: str | None) -> Version | None:
    try:
        return Version(version) if version else None
    except InvalidVersion:
        return None
