"""Package archives: dated ones at a moment, and current ones."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from reprobuild.ecosystems.apt.archives import AptArchive
from reprobuild.ecosystems.apt.index import PackagesFile, without_credentials
from reprobuild.ecosystems.apt.snapshot_archive import ArchiveIndexes, ListedPackagesFile
from reprobuild.errors import FetchError
from reprobuild.infra.http.model import NotFoundError
from reprobuild.resolve.system.apt_update_time import Key, Sample

_PACKAGE = re.compile(rb"^Package: *(\S+)", re.MULTILINE)
_VERSION = re.compile(rb"^Version: *(\S+)", re.MULTILINE)


class SilentError(Exception):
    """An archive does not answer.

    The question must be repeated for the others.
    """


class Past:
    """The offer of the dated archives, at as few moments as possible.

    Args:
        archives: the dated ones.
        indexes: reads their indexes.
        names: the packages of interest.
    """

    def __init__(
        self, archives: Iterable[AptArchive], indexes: ArchiveIndexes, names: Collection[str]
    ) -> None:
        self._archives = tuple(archives)
        self._indexes = indexes
        self._names = {name.encode() for name in names}
        self._samples: dict[int, Sample | None] = {}
        self._listed: dict[tuple[str, int], tuple[ListedPackagesFile, ...]] = {}
        self._versions: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {}
        self.silent: dict[str, str] = {}  # archives that do not answer, with the reason

    @property
    def answers(self) -> bool:
        """Whether an archive is left that answers."""
        return bool(self._archives)

    @property
    def samples(self) -> tuple[Sample, ...]:
        """All moments that were looked up."""
        return tuple(sample for sample in self._samples.values() if sample is not None)

    def find_offer(self, time: int) -> Sample | None:
        """Return the archives' offer at a moment, None without data.

        Raises:
            SilentError: one of them does not answer.
        """
        if time not in self._samples:
            indexes = self._open_at(time)
            offered: dict[Key, tuple[str, ...]] = {}
            for index in indexes:
                if index.automatic:
                    for name, versions in self._read_versions(index).items():
                        key = (name, index.architecture)
                        offered[key] = tuple(dict.fromkeys((*offered.get(key, ()), *versions)))
            self._samples[time] = Sample(time, offered) if indexes else None
        return self._samples[time]

    def list_indexes(self, time: int) -> tuple[PackagesFile, ...]:
        """Return every index of a moment."""
        return tuple(self._indexes.read(index) for index in self._open_at(time))

    def stanzas(self, time: int, name: str, version: str) -> tuple[PackagesFile, ...]:
        """Return a version's entries in the indexes of a moment.

        Other entries are left out.
        """
        files = []
        for index in self._open_at(time):
            if version in self._read_versions(index).get(name, ()):
                file = self._indexes.read(index)
                paragraphs = [
                    s
                    for s in file.content.split(b"\n\n")
                    if _is_stanza_of(s, name.encode(), version.encode())
                ]
                files.append(PackagesFile(uri=file.uri, content=b"\n\n".join(paragraphs), automatic=False))
        return tuple(files)

    def _open_at(self, time: int) -> tuple[ListedPackagesFile, ...]:
        return tuple(index for archive in self._archives for index in self._ask(archive, time))

    def _ask(self, archive: AptArchive, time: int) -> Sequence[ListedPackagesFile]:
        """Return one archive's indexes of a moment.

        Raises:
            SilentError: it does not answer. It is not asked again, and is ignored from then on, so that the results of
                the others are consistent.
        """
        key = (archive.url, time)
        if key not in self._listed:
            try:
                indexes = self._indexes.open_at(archive, time)
                for index in indexes:
                    self._read_versions(index)
            except NotFoundError:
                indexes = ()
            except FetchError as err:
                self._archives = tuple(other for other in self._archives if other != archive)
                self._samples.clear()
                self.silent[without_credentials(archive.url)] = str(err)
                raise SilentError from err
            self._listed[key] = indexes
        return self._listed[key]

    def _read_versions(self, index: ListedPackagesFile) -> dict[str, tuple[str, ...]]:
        """Return the versions of the packages of interest in an index."""
        key = (index.sha256, index.architecture)
        if key not in self._versions:
            versions: dict[str, tuple[str, ...]] = {}
            for stanza in self._indexes.read(index).content.split(b"\n\n"):
                name = _PACKAGE.search(stanza)
                version = _VERSION.search(stanza)
                if name and version and name[1] in self._names:
                    text = name[1].decode()
                    versions[text] = (*versions.get(text, ()), version[1].decode(errors="replace"))
            self._versions[key] = versions
        return self._versions[key]


class CurrentArchives:
    """The current archives.

    `silent` are those that do not answer, each with the reason.
    """

    def __init__(self, archives: Iterable[AptArchive], indexes: ArchiveIndexes) -> None:
        self._archives = tuple(archives)
        self._indexes = indexes
        self.silent: dict[str, str] = {}

    def list_indexes(self) -> tuple[PackagesFile, ...]:
        """Return every index of the answering archives, only once.

        A second call returns an empty tuple.
        """
        files: list[PackagesFile] = []
        for archive in self._archives:
            try:
                files += [self._indexes.read(index) for index in self._indexes.open_at(archive)]
            except FetchError as err:
                self.silent[without_credentials(archive.url)] = str(err)
        self._archives = ()
        return tuple(files)


def _is_stanza_of(stanza: bytes, name: bytes, version: bytes) -> bool:
    name_match, version_match = _PACKAGE.search(stanza), _VERSION.search(stanza)
    return bool(name_match and version_match and name_match[1] == name and version_match[1] == version)
