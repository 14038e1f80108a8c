"""What files the machine's indexes offer for a project: find-links folders and Simple APIs.

File names are read by `packaging`; `pages` reads the places themselves.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Struct
from packaging.tags import Tag
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
)
from packaging.version import InvalidVersion, Version

from reprobuild.ecosystems.pypi.indexes import PackageIndex, PackageIndexes
from reprobuild.ecosystems.pypi.page_cache import ListedFile
from reprobuild.ecosystems.pypi.simple_api import NoListError, Pages
from reprobuild.ecosystems.pypi.versions import same_version as same_version
from reprobuild.errors import FetchError
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.file_scheme import local_hash, local_size
from reprobuild.infra.http.model import split_credentials
from reprobuild.infra.untrusted.strings import FileName, is_valid
from reprobuild.infra.untrusted.wheels import parse_wheel_filename
from reprobuild.lock.system import Artefact

Bring = Callable[[str, str], Artefact]


class IndexDistribution(Struct, frozen=True, kw_only=True):
    """One file on an index. `tags` are empty for a source distribution; `rank` is the index's place in
    the order of preference; `yanked` is None, or the publisher's reason (may be empty).
    `hashes` are all, by algorithm."""

    filename: str
    version: str
    url: str
    sha256: str | None
    size: int
    rank: int
    index: str
    tags: frozenset[Tag] = frozenset()
    build: tuple[int, str] | None = None
    requires_python: str | None = None
    yanked: str | None = None
    hashes: dict[str, str] = {}


class IndexOffer(Struct, frozen=True, kw_only=True):
    """What one index has of a version: its files of it, and whether it has any of the project."""

    index: PackageIndex
    files: tuple[IndexDistribution, ...]
    known: bool


class FileLists:
    """The file lists of every index, each asked once for each project.

    Args:
        indexes: where to look, in order.
        net: how to get there.
        by_rule: gives the places where wheels of a name and version stand, too, which are asked when no index has one.
        decided: by name of a distribution, the only index that is asked for it.
        pages: how pages are read and remembered.
        bring: fetches a file of which no hash is published, by its address and name.
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

    def save(self) -> None:
        """Let the next run know which pages are still fresh then."""
        self._pages.save()

    def decided(self, name: str) -> PackageIndex | None:
        """Return the only index that a distribution is to come from, if that was decided."""
        return self._decided.get(canonicalize_name(name))

    def is_common(self, err: NoListError) -> bool:
        """Tell whether a place that gives no list is one of the machine's own, in which every line is looked for."""
        return any(index.url == err.place for index in self._places)

    def lost(self, name: str) -> list[NoListError]:
        """Return an error for each of the machine's own places that gives no list for a project."""
        found = []
        for index in self._places:
            try:
                self._pages.files(index, canonicalize_name(name), name)
            except NoListError as err:
                found.append(err)
        return found

    def offers(self, name: str, version: str) -> list[IndexOffer]:
        """Return what each index has of one version, in the order of preference.

        Raises:
            NoListError: an index cannot be reached, or is none.
        """
        project = canonicalize_name(name)
        return [self._offer(index, project, version, rank) for rank, index in enumerate(self._asked(project))]

    def elsewhere(self, name: str, version: str) -> list[IndexOffer]:
        """Return what the services have that a rule leads to; nothing where the index was decided."""
        project = canonicalize_name(name)
        led = self._led(project, version)
        return [self._offer(place, project, version, len(self._places)) for place in led]

    def of(self, name: str, version: str) -> list[IndexDistribution]:
        """Return the files of one version on all indexes; those of a service only where no index has it.

        A place that cannot be reached counts as empty: its lines are refused when they are resolved.
        """
        try:
            found = [item for offer in self.offers(name, version) for item in offer.files]
            return found or [item for offer in self.elsewhere(name, version) for item in offer.files]
        except NoListError:
            return []

    def releases(self, name: str) -> list[IndexDistribution]:
        """Return every file of a project in the user's folders and pages of links, and on the first index that has it.

        Another index may have a newer release of the same name by somebody else.
        """
        project = canonicalize_name(name)
        found: list[IndexDistribution] = []
        for rank, index in enumerate(self._asked(project)):
            here = self._all(index, project, rank)
            found += here
            if here and not index.links:
                break
        return found

    def versions(self, name: str, version: str) -> list[str]:
        """Return every version of a project that any place has, those that a rule leads to among them."""
        project = canonicalize_name(name)
        places = [*self._asked(project), *self._led(project, version)]
        return [item.version for index in places for item in self._all(index, project, 0)]

    def named(self, name: str, filename: str) -> list[IndexDistribution]:
        """Return the files of a project with this very name."""
        project = canonicalize_name(name)
        return [
            item
            for rank, index in enumerate(self._asked(project))
            for item in self._read(index, project, rank, filename)[0]
            if item.filename == filename
        ]

    def refused(self, name: str, version: str) -> str:
        """Return where access was refused and that was taken for having nothing, as the end of a sentence."""
        project = canonicalize_name(name)
        asked = [*self._asked(project), *self._led(project, version)]
        places = sorted(url for one in asked if (url := self._pages.refused(one, project)))
        return (
            f"; {', '.join(places)} answered HTTP 403: nothing is there, or access is refused"
            if places
            else ""
        )

    def _led(self, project: str, version: str) -> Sequence[PackageIndex]:
        return () if project in self._decided else self._by_rule(project, version)

    def _asked(self, project: str) -> Sequence[PackageIndex]:
        decided = self.decided(project)
        return (decided,) if decided else self._places

    def _offer(self, index: PackageIndex, project: str, version: str, rank: int) -> IndexOffer:
        found, known = self._read(index, project, rank, _needle(version))
        same = [item for item in found if same_version(item.version, version)]
        if known and not same:  # names may spell it in more ways than one
            same = [item for item in self._all(index, project, rank) if same_version(item.version, version)]
        return IndexOffer(index=index, files=tuple(same), known=known)

    def _all(self, index: PackageIndex, project: str, rank: int) -> list[IndexDistribution]:
        return self._read(index, project, rank, "")[0]

    def _read(
        self, index: PackageIndex, project: str, rank: int, needle: str
    ) -> tuple[list[IndexDistribution], bool]:
        if not index.links:
            listed, known = self._pages.files(index, project, needle)
            return [item for one in listed if (item := self._described(project, one, index.url, rank))], known
        mine = self._of_links(index, project)
        listed = [one for one in mine if needle in one.filename]
        found = [item for one in listed if (item := self._described(project, one, index.url, rank))]
        # Names may spell the version in more ways than one.
        return found, bool(found) or any(_distribution(project, one, index.url, rank) for one in mine)

    def _of_links(self, index: PackageIndex, project: str) -> list[ListedFile]:
        """Return the files of a page of links that may be a project's: reading a name takes a hundred times as long."""
        if index.url not in self._links:
            listed, _ = self._pages.files(index, project, "")
            self._links[index.url] = [(canonicalize_name(one.filename), one) for one in listed]
        return [one for name, one in self._links[index.url] if name.startswith(project)]

    def _described(self, project: str, listed: ListedFile, index: str, rank: int) -> IndexDistribution | None:
        """Return the file's description, whose address holds no signature; this run knows it."""
        item = _distribution(project, listed, index, rank)
        return msgspec.structs.replace(item, url=self._net.hidden.hide(item.url)) if item else None

    def artefact(self, item: IndexDistribution) -> Artefact:
        """Return the file as the lock keeps it; a file without a published hash is brought once to get it.

        Raises:
            FetchError: the index publishes no sha256, and the file cannot be had.
        """
        sha256, size = self.hash_of(item), item.size
        if item.url.startswith("file:"):
            size = local_size(item.url)
        if sha256 is None:
            if self._bring is not None:
                return self._bring(item.url, item.filename)
            raise FetchError(
                f"{item.index} publishes no sha256 for {item.filename} (an md5 is not enough)",
                hint="put the file into a folder, and that folder into pip's find-links",
            )
        return Artefact(filename=item.filename, sha256=sha256, size=size, url=item.url)

    def hash_of(self, item: IndexDistribution) -> str | None:
        """Return the sha256 of a file, read where none is published and it is on the disk, else None."""
        if item.sha256 is None and item.url.startswith("file:"):
            return local_hash(item.url)
        return item.sha256

    def facts_of(self, item: IndexDistribution) -> dict[str, str]:
        """Return what is known of a file's bytes: its hashes by algorithm, and its `size`, read from the disk, too."""
        facts = {name: value.lower() for name, value in item.hashes.items()}
        if sha256 := self.hash_of(item):
            facts["sha256"] = sha256.lower()
        size = local_size(item.url) if item.url.startswith("file:") else item.size
        facts.pop("size", None)
        return {**facts, "size": str(size)} if size else facts


def _needle(version: str) -> str:
    """Return what stands in the names of a version's files, in most of their spellings."""
    try:
        release = Version(version).release
    except InvalidVersion:
        return version
    return ".".join(str(part) for part in release)


def at_address(name: str, filename: str, url: str, sha256: str) -> IndexDistribution | None:
    """Return the file that stands at an address of its own, or None where its name is not the project's."""
    listed = ListedFile(filename=filename, url=url, hashes={"sha256": sha256})
    return _distribution(canonicalize_name(name), listed, "its own address", 0)


def _distribution(project: str, listed: ListedFile, index: str, rank: int) -> IndexDistribution | None:
    """Return the file's description, or None where its name is not one of this project's."""
    if not is_valid(
        listed.filename, FileName
    ):  # `%2F` in an address, or a page that lies; a build tag takes anything
        return None
    tags: frozenset[Tag] = frozenset()
    build: tuple[int, str] | None = None
    try:
        if listed.filename.endswith(".whl"):
            name, version, raw_build, tags = parse_wheel_filename(listed.filename)
            build = raw_build if raw_build else None
        else:
            name, version = parse_sdist_filename(listed.filename)
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
        return None
    if canonicalize_name(name) != project:
        return None
    return IndexDistribution(
        filename=listed.filename, version=str(version),
        url=split_credentials(urllib.parse.urldefrag(listed.url).url)[0], sha256=listed.hashes.get("sha256"),
        size=listed.size, rank=rank, index=index, tags=tags, build=build, requires_python=listed.requires_python,
        yanked=listed.yanked, hashes=listed.hashes,
    )  # fmt: skip
