"""What files the machine's indexes offer for a project: find-links folders and Simple APIs.

The Simple API is read by `mousebender` (PEP 503, PEP 691); file names by `packaging`.
"""

from __future__ import annotations

import posixpath
import re
import urllib.parse
import warnings
from collections.abc import Callable

import mousebender.simple as simple
from msgspec import Struct
from packaging.tags import Tag
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

from reprobuild.errors import FetchError
from reprobuild.lock import Artefact
from reprobuild.net import Net, NotFound, Page, local_hash, local_path, local_size, split_credentials
from reprobuild.resolve.indexes import Indexes
from reprobuild.resolve.page_text import check_list, joined


class Distribution(Struct, frozen=True, kw_only=True):
    """One file on an index. `tags` are empty for a source distribution; `rank` is the index's place in
    the order of preference; `yanked` is None, or the publisher's reason (may be empty)."""

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


class FileLists:
    """The file lists of every index, each asked once for each project.

    Args:
        indexes: where to look, in order.
        net: how to get there.
        local_index: gives the address of the index for a local version label (`cpu`, `cu121`), or None.
    """

    def __init__(self, indexes: Indexes, net: Net, local_index: Callable[[str], str | None]) -> None:
        self._indexes = indexes
        self._net = net
        self._local_index = local_index
        self._links: dict[str, list[tuple[str, str]]] = {}
        self._pages: dict[str, Page | None] = {}

    def of(self, name: str, version: str | None) -> list[Distribution]:
        """Return the files of a project: those of one version, or all where it is None or has none.

        A local label's own index is asked only if no other has the version.
        """
        project = canonicalize_name(name)
        if version is not None:
            found = self._everywhere(project, version)
            if any(same_version(item.version, version) for item in found):
                return found
        return self._everywhere(project, None)

    def _everywhere(self, project: str, version: str | None) -> list[Distribution]:
        needle = version.partition("+")[0] if version else ""
        found: list[Distribution] = []
        places = [*self._indexes.find_links, *self._indexes.simple]
        for rank, place in enumerate(places):
            if rank < len(self._indexes.find_links):
                found += self._from_links(place, project, rank)
            else:
                found += self._from_simple(place, project, rank, needle)
        if version and "+" in version and not any(same_version(item.version, version) for item in found):
            extra = self._local_index(version.partition("+")[2])
            if extra:
                found += self._from_simple(extra, project, len(places), needle)
        return found

    def artefact(self, item: Distribution) -> Artefact:
        """Return the file as the lock keeps it; a file without a published hash is read once to get it."""
        sha256, size = self.hash_of(item), item.size
        if item.url.startswith("file:"):
            size = local_size(item.url)
        if sha256 is None:
            raise FetchError(
                f"{item.index} publishes no sha256 for {item.filename}",
                hint="put the file into a folder, and that folder into pip's find-links",
            )
        return Artefact(filename=item.filename, sha256=sha256, size=size, url=item.url)

    def hash_of(self, item: Distribution) -> str | None:
        """Return the sha256 of a file, read where none is published and it is on the disk, else None."""
        if item.sha256 is None and item.url.startswith("file:"):
            return local_hash(item.url)
        return item.sha256

    def _page(self, root: str, project: str) -> Page | None:
        url = f"{root}/{project}/"
        if url not in self._pages:
            try:
                self._pages[url] = self._net.page(url, accept=simple.ACCEPT_SUPPORTED)
            except NotFound:
                self._pages[url] = None
        return self._pages[url]

    def _from_simple(self, root: str, project: str, rank: int, needle: str) -> list[Distribution]:
        page = self._page(root, project)
        if page is None:
            return []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", simple.APIVersionWarning)
            try:
                media = page.content_type.split(";")[0].strip() or "text/html"
                text = page.content.decode()
                if "json" not in media:
                    check_list(text)
                    text = _only_links_with(text, needle)
                details = simple.parse_project_details(text, media, project)
                listed, version = details["files"], str(details.get("meta", {}).get("api-version", "1.0"))
                if version.partition(".")[0] != "1":
                    raise simple.UnsupportedAPIVersion(version)
            except (ValueError, KeyError, simple.UnsupportedMIMEType, simple.UnsupportedAPIVersion) as err:
                raise FetchError(
                    f"{root} does not answer as a Simple API: {err}", hint="check pip's index-url"
                ) from None
        found = []
        for file in listed:
            if needle not in file["filename"]:
                continue
            yanked, url = file.get("yanked", False), joined(page.url, file["url"])
            if url is None:
                continue
            item = _distribution(
                project, file["filename"], url, root, rank,
                sha256=file.get("hashes", {}).get("sha256"), size=_size(file.get("size")),
                requires_python=file.get("requires-python"),
                yanked=None if yanked is False else yanked if isinstance(yanked, str) else "",
            )  # fmt: skip
            if item:
                found.append(item)
        return found

    def _from_links(self, place: str, project: str, rank: int) -> list[Distribution]:
        if place not in self._links:
            self._links[place] = list(self._list_links(place))
        found = (
            _distribution(project, name, url, place, rank, sha256=_fragment_hash(url))
            for name, url in self._links[place]
        )
        return [item for item in found if item]

    def _list_links(self, place: str) -> list[tuple[str, str]]:
        if place.startswith("file:") and local_path(place).is_dir():
            return [
                (path.name, path.as_uri()) for path in sorted(local_path(place).iterdir()) if path.is_file()
            ]
        try:
            page = self._net.page(place, accept="text/html")
        except NotFound:
            return []
        links = re.findall(rb"""<a\s[^>]*href=["']([^"']+)["']""", page.content, re.IGNORECASE)
        found = (joined(page.url, link.decode(errors="replace")) for link in links)
        urls = [url for url in found if url is not None]
        return [
            (urllib.parse.unquote(posixpath.basename(urllib.parse.urlsplit(url).path)), url) for url in urls
        ]


def _fragment_hash(url: str) -> str | None:
    fragment = urllib.parse.urlsplit(url).fragment
    return fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else None


def _size(raw: object) -> int:
    return raw if isinstance(raw, int) else 0


def _only_links_with(text: str, needle: str) -> str:
    """Return an HTML page without the links that lack the needle: parsing ten thousand takes seconds."""
    head, *links = re.split(r"(?=<a\s)", text)
    return head + "".join(link for link in links if needle in link)


def same_version(found: str, captured: str) -> bool:
    """Tell whether two versions are equal by PEP 440, or by their text where they are no such versions."""
    try:
        return Version(found) == Version(captured)
    except InvalidVersion:
        return found == captured


def at_address(name: str, filename: str, url: str, sha256: str) -> Distribution | None:
    """Return the file that stands at an address of its own, or None where its name is not the project's."""
    return _distribution(canonicalize_name(name), filename, url, "its own address", 0, sha256=sha256)


def _distribution(
    project: str, filename: str, url: str, index: str, rank: int, *, sha256: str | None, size: int = 0,
    requires_python: str | None = None, yanked: str | None = None,
) -> Distribution | None:  # fmt: skip
    """Return the file's description, or None where its name is not one of this project's."""
    tags: frozenset[Tag] = frozenset()
    build: tuple[int, str] | None = None
    try:
        if filename.endswith(".whl"):
            name, version, raw_build, tags = parse_wheel_filename(filename)
            build = raw_build if raw_build else None
        else:
            name, version = parse_sdist_filename(filename)
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
        return None
    if canonicalize_name(name) != project:
        return None
    return Distribution(
        filename=filename, version=str(version), url=split_credentials(urllib.parse.urldefrag(url).url)[0],
        sha256=sha256,
        size=size, rank=rank, index=index, tags=tags, build=build, requires_python=requires_python,
        yanked=yanked,
    )  # fmt: skip
