"""The files that the machine's indexes offer for a project.

Indexes are find-links directories and Simple APIs. File names are read by `packaging`; `simple_api` reads the
indexes themselves.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Struct
from packaging.utils import canonicalize_name, parse_sdist_filename
from packaging.version import InvalidVersion, Version

from reprobuild.ecosystems.pypi.indexes import PackageIndex, PackageIndexes
from reprobuild.ecosystems.pypi.json_page import ALL_FILES, FileFilter
from reprobuild.ecosystems.pypi.page_cache import ListedFile
from reprobuild.ecosystems.pypi.simple_api import NoListError, Pages
from reprobuild.ecosystems.pypi.versions import same_version as same_version
from reprobuild.errors import FetchError
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.file_scheme import local_hash, local_size
from reprobuild.infra.http.model import parse_credentials
from reprobuild.infra.untrusted.strings import FileName, is_valid
from reprobuild.infra.untrusted.wheels import read_wheel_filename
from reprobuild.lock.system import Artefact

Bring = Callable[[str, str, str], Artefact]
"""Fetches a file without a published hash, by its address, its name and its complete link (may be empty)."""


class IndexDistribution(Struct, frozen=True, kw_only=True):
    """A file on an index.

    `rank` is the index's place in the order of preference; `yanked` is None, or the publisher's reason (may be empty).
    `hashes` are all, by algorithm.
    """

    filename: str
    version: str
    url: str
    sha256: str | None
    size: int
    rank: int
    index: str
    build: tuple[int, str] | None = None
    requires_python: str | None = None
    yanked: str | None = None
    hashes: dict[str, str] = {}

    @property
    def is_wheel(self) -> bool:
        """Whether it is a wheel; else it is a source distribution."""
        return self.filename.endswith(".whl")


class IndexOffer(Struct, frozen=True, kw_only=True):
    """An index's files of a version; `known` means any version.

    `known` is true if the index has the project at all.
    """

    index: PackageIndex
    files: tuple[IndexDistribution, ...]
    known: bool


class FileLists:
    """The file lists of every index, fetched once each.

    Args:
        indexes: the indexes, in order.
        net: the network client.
        by_rule: returns further indexes for wheels of a name and version, used if no index has one.
        decided: by name of a distribution, its only index.
        pages: reads and remembers pages.
        bring: fetches a file without a published hash.
    """

    def __init__(
        self, indexes: PackageIndexes, net: Net,
        by_rule: Callable[[str, str], Sequence[PackageIndex]] = lambda name, version: (),
        decided: Mapping[str, PackageIndex] | None = None, pages: Pages | None = None, bring: Bring | None = None,
    ) -> None:  # fmt: skip
        self._net = net
        self._places = indexes.places
        self._by_rule = by_rule
        self._decided = {canonicalize_name(name): index for name, index in (decided or {}).items()}
        self._pages = pages or Pages(net)
        self._bring = bring
        self._links: dict[str, list[tuple[str, ListedFile]]] = {}
        self._complete: dict[tuple[str, str, str], str] = {}

    def save(self) -> None:
        """Save the fresh pages for the next run."""
        self._pages.save()

    def decided_index(self, name: str) -> PackageIndex | None:
        """Return the only index of a distribution that an override permits, or None."""
        return self._decided.get(canonicalize_name(name))

    def has_decided_index(self) -> bool:
        """Tell whether an override sets the index of any distribution."""
        return bool(self._decided)

    def is_common(self, err: NoListError) -> bool:
        """Return whether a failing index is the machine's own, in which every line is looked up."""
        return any(index.url == err.place for index in self._places)

    def lost(self, name: str) -> list[NoListError]:
        """Return an error for each own index that gives no list of a project's files."""
        errors = []
        for index in self._places:
            try:
                self._pages.files(index, canonicalize_name(name), name)
            except NoListError as err:
                errors.append(err)
        return errors

    def offers(self, name: str, version: str) -> list[IndexOffer]:
        """Return each index's offer of one version, by preference.

        Raises:
            NoListError: an index cannot be reached, or is not valid.
        """
        project = canonicalize_name(name)
        return [self._offer(index, project, version, rank) for rank, index in enumerate(self._asked(project))]

    def service_offers(self, name: str, version: str) -> list[IndexOffer]:
        """Return the offers of the services that a rule names; empty if an override sets the index."""
        project = canonicalize_name(name)
        led = self._led(project, version)
        return [self._offer(place, project, version, len(self._places)) for place in led]

    def list_files(self, name: str, version: str) -> list[IndexDistribution]:
        """Return the files of one version on all indexes.

        Files of a service count only if no index has one. An index that cannot be reached counts as empty:
        its lines are refused when they are resolved.
        """
        try:
            items = [item for offer in self.offers(name, version) for item in offer.files]
            return items or [item for offer in self.service_offers(name, version) for item in offer.files]
        except NoListError:
            return []

    def releases(self, name: str) -> list[IndexDistribution]:
        """Return a project's files on links and its first index.

        The links are the user's directories and pages of links. Another index may have a newer release of the
        same name by someone else.
        """
        project = canonicalize_name(name)
        items: list[IndexDistribution] = []
        for rank, index in enumerate(self._asked(project)):
            batch = self._all(index, project, rank)
            items += batch
            if batch and not index.links:
                break
        return items

    def versions(self, name: str, version: str) -> list[str]:
        """Return every version of a project on any index, also on those that a rule names."""
        project = canonicalize_name(name)
        places = [*self._asked(project), *self._led(project, version)]
        return [item.version for index in places for item in self._all(index, project, 0)]

    def list_page(
        self, index: PackageIndex, name: str, selection: FileFilter = ALL_FILES
    ) -> list[ListedFile]:
        """Return the files of a project on one index, as it lists them."""
        return self._pages.files(index, canonicalize_name(name), selection)[0]

    def first_upload(self, name: str) -> str:
        """Return the time of a project's first upload, of RFC 3339; empty if no index states times.

        Raises:
            NoListError: an index cannot be reached, or is not valid.
        """
        pages = (self.list_page(index, name) for index in self._asked(canonicalize_name(name)))
        return min((file.uploaded for page in pages for file in page if file.uploaded), default="")

    def named(self, name: str, filename: str) -> list[IndexDistribution]:
        """Return the files of a project with exactly this name."""
        project = canonicalize_name(name)
        return [
            item
            for rank, index in enumerate(self._asked(project))
            for item in self._read(index, project, rank, filename)[0]
            if item.filename == filename
        ]

    def refused(self, name: str, version: str) -> str:
        """Return a note on refused access, as a sentence's end.

        HTTP 403 of these indexes was taken as an empty answer.
        """
        project = canonicalize_name(name)
        indexes = [*self._asked(project), *self._led(project, version)]
        places = sorted(url for index in indexes if (url := self._pages.refused(index, project)))
        return (
            f"; {', '.join(places)} answered HTTP 403: nothing is there, or access is refused"
            if places
            else ""
        )

    def _led(self, project: str, version: str) -> Sequence[PackageIndex]:
        return () if project in self._decided else self._by_rule(project, version)

    def _asked(self, project: str) -> Sequence[PackageIndex]:
        decided = self.decided_index(project)
        return (decided,) if decided else self._places

    def _offer(self, index: PackageIndex, project: str, version: str, rank: int) -> IndexOffer:
        items, known = self._read(index, project, rank, _version_needle(version))
        same = [item for item in items if same_version(item.version, version)]
        if known and not same:  # a file name may spell the version differently
            same = [item for item in self._all(index, project, rank) if same_version(item.version, version)]
        return IndexOffer(index=index, files=tuple(same), known=known)

    def _all(self, index: PackageIndex, project: str, rank: int) -> list[IndexDistribution]:
        return self._read(index, project, rank, "")[0]

    def _read(
        self, index: PackageIndex, project: str, rank: int, needle: str
    ) -> tuple[list[IndexDistribution], bool]:
        if not index.links:
            files, known = self._pages.files(index, project, needle)
            return [
                item for file in files if (item := self._described(project, file, index.url, rank))
            ], known
        link_files = self._of_links(index, project)
        files = [file for file in link_files if needle in file.filename]
        items = [item for file in files if (item := self._described(project, file, index.url, rank))]
        # A file name may spell the version differently.
        return items, bool(items) or any(
            _parse_distribution(project, file, index.url, rank) for file in link_files
        )

    def _of_links(self, index: PackageIndex, project: str) -> list[ListedFile]:
        """Return a link page's files that may fit a project.

        It is a quick filter: parsing a name takes a hundred times as long.
        """
        if index.url not in self._links:
            files, _ = self._pages.files(index, project, "")
            self._links[index.url] = [(canonicalize_name(file.filename), file) for file in files]
        return [file for name, file in self._links[index.url] if name.startswith(project)]

    def _described(self, project: str, file: ListedFile, index: str, rank: int) -> IndexDistribution | None:
        """Return a file's description without a signature in its address; `link_of` returns the whole."""
        item = _parse_distribution(project, file, index, rank)
        if item is None:
            return None
        url = self._net.hidden.hide(item.url, hashed=item.sha256 is not None)
        if url != item.url:
            self._complete[index, item.filename, url] = item.url
        return msgspec.structs.replace(item, url=url)

    def link_of(self, item: IndexDistribution) -> str:
        """Return the link of a file with its secrets, as its index lists it; empty if it has no secret."""
        return self._complete.get((item.index, item.filename, item.url), "")

    def artefact(self, item: IndexDistribution) -> Artefact:
        """Return the file for the lock, with its sha256.

        A file without a published hash is fetched once to compute it.

        Raises:
            FetchError: the index publishes no sha256, and the file is not available.
        """
        sha256, size, link = self.hash_of(item), item.size, self.link_of(item)
        if item.url.startswith("file:"):
            size = local_size(item.url)
        if sha256 is None:
            if self._bring is not None:
                return self._bring(item.url, item.filename, link)
            raise FetchError(
                f"{item.index} publishes no sha256 for {item.filename} (an md5 is not enough)",
                hint="put the file into a directory, and that directory into pip's find-links",
            )
        self._net.hidden.keep_link(item.url, sha256, link)
        return Artefact(filename=item.filename, sha256=sha256, size=size, url=item.url)

    def hash_of(self, item: IndexDistribution) -> str | None:
        """Return the sha256 of a file, or None if unknown.

        An unpublished one is computed for a local file.
        """
        if item.sha256 is None and item.url.startswith("file:"):
            return local_hash(item.url)
        return item.sha256

    def facts_of(self, item: IndexDistribution) -> dict[str, str]:
        """Return the known facts of a file's bytes.

        These are its hashes by algorithm, and its `size`, also read from the disk.
        """
        facts = {name: value.lower() for name, value in item.hashes.items()}
        if sha256 := self.hash_of(item):
            facts["sha256"] = sha256.lower()
        size = local_size(item.url) if item.url.startswith("file:") else item.size
        facts.pop("size", None)
        return {**facts, "size": str(size)} if size else facts


def _version_needle(version: str) -> str:
    """Return a version's text in file names, in most spellings."""
    try:
        release = Version(version).release
    except InvalidVersion:
        return version
    return ".".join(str(part) for part in release)


def archive_distribution(name: str, filename: str, url: str, sha256: str) -> IndexDistribution | None:
    """Return the file at its own address, or None.

    None means that its name is not the project's.
    """
    file = ListedFile(filename=filename, url=url, hashes={"sha256": sha256})
    return _parse_distribution(canonicalize_name(name), file, "its own address", 0)


def _parse_distribution(project: str, file: ListedFile, index: str, rank: int) -> IndexDistribution | None:
    """Return a file's description, or None for a foreign name."""
    if not is_valid(
        file.filename, FileName
    ):  # `%2F` in an address, or a wrong page; a build tag matches any text
        return None
    build: tuple[int, str] | None = None
    try:
        if file.filename.endswith(".whl"):
            name, version, raw_build = read_wheel_filename(file.filename)
            build = raw_build if raw_build else None
        else:
            name, version = parse_sdist_filename(file.filename)
        url = parse_credentials(urllib.parse.urldefrag(file.url).url)[0]
    except ValueError:  # of a name or a version, or of a port that is no number
        return None
    if canonicalize_name(name) != project:
        return None
    return IndexDistribution(
        filename=file.filename, version=str(version), url=url, sha256=file.hashes.get("sha256"),
        size=file.size, rank=rank, index=index, build=build, requires_python=file.requires_python, yanked=file.yanked,
        hashes=file.hashes,
    )  # fmt: skip
