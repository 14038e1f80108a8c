"""The offers of one place, read once a page.

A place is a Simple API, a directory, or a page of links. JSON (PEP 691) is read by `json_page`, HTML (PEP 503)
by `mousebender`.
"""

from __future__ import annotations

import contextlib
import posixpath
import re
import shlex
import urllib.parse
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import mousebender.simple as simple
import msgspec

from reprobuild.ecosystems.pypi.core_metadata import parse_core_metadata
from reprobuild.ecosystems.pypi.indexes import PackageIndex
from reprobuild.ecosystems.pypi.json_page import ALL_FILES, FileFilter, convert_file, read_json_page
from reprobuild.ecosystems.pypi.page_cache import ListedFile as ListedFile
from reprobuild.ecosystems.pypi.page_cache import PageMemory
from reprobuild.ecosystems.pypi.page_text import check_count, check_list, join_link, read_anchors
from reprobuild.errors import FetchError
from reprobuild.infra.display import display_text
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.file_scheme import local_path
from reprobuild.infra.http.model import (
    AccessDeniedError,
    DistrustedError,
    ForbiddenError,
    NotFoundError,
    Page,
    UnreachedError,
)
from reprobuild.infra.untrusted.wheels import check_page_tags

_JSON = (simple.ACCEPT_JSON_V1, simple.ACCEPT_JSON_LATEST)
# Bounds of a page. One with 30,000 files has some 10 MiB, and `mousebender` reads 1 MiB in a second.
LARGEST = 64 << 20
_MOST_KEPT = 256 << 20  # bytes of all pages in memory
_LARGEST_READ = 16 << 20  # of the links to the wanted files
_LARGEST_HEAD = 1 << 20
_ANCHOR = re.compile(r"(?=<a\s)")
_LOGIN = (
    "put the credentials where pip finds them (its configuration, or ~/.netrc); an index that answers so where it "
    "has nothing is not asked for what is decided: --index"
)
_BAD = (
    msgspec.MsgspecError,
    ValueError,
    KeyError,
    RecursionError,
    AssertionError,  # of `html.parser`, for `<![`
    simple.UnsupportedMIMEType,
    simple.UnsupportedAPIVersion,
)


class NoListError(FetchError):
    """An error: a place lists no files of a project.

    Args:
        what: the failure.
        hint: the next step for the reader.
        place: the address of the place.
    """

    def __init__(self, message: str, *, hint: str, place: str) -> None:
        super().__init__(message, hint=hint)
        self.place = place


class Pages:
    """The pages of all places, each fetched once.

    Args:
        net: the network client.
        memory: the fresh pages of earlier runs.
        silent: addresses of indexes that answer 403 for a missing page, as places of rules do: those on S3
            without permission to list (https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html).
    """

    def __init__(
        self, net: Net, memory: PageMemory | None = None, silent: tuple[re.Pattern[str], ...] = ()
    ) -> None:
        self._net = net
        self._memory = memory
        self._silent = silent
        self._pages: dict[str, Page | None] = {}  # the newest ones, up to `_MOST_KEPT`
        self._links: dict[str, list[ListedFile]] = {}
        self._refused: set[str] = set()
        self._lost: dict[str, FetchError] = {}  # by address of a place or a page; it is not fetched again

    def files(
        self, index: PackageIndex, project: str, selection: str | FileFilter
    ) -> tuple[list[ListedFile], bool]:
        """Return the files with a text in their names, or those of a filter.

        The second value is true if the place has the project at all. A page of links does not state the
        projects of its files: those of other projects are among them.

        Raises:
            NoListError: the place cannot be reached, or is not valid.
            FetchError: the network is forbidden.
        """
        if isinstance(selection, str):
            selection = FileFilter(text=selection) if selection else ALL_FILES
        address = _project_address(index, project)
        if lost := self._lost.get(index.url) or self._lost.get(address):
            raise _no_list_error(index, lost)
        try:
            return self._files(index, project, selection)
        except UnreachedError as err:
            message = str(err).replace(address, index.url, 1)
            hint = err.hint if isinstance(err, DistrustedError) else _mirror_hint(index) or err.hint
            self._lost[index.url] = FetchError(message, hint=hint)
            raise _no_list_error(index, self._lost[index.url]) from None
        except FetchError as err:
            if self._net.offline:
                raise
            self._lost[address] = err
            raise _no_list_error(index, err) from None

    def _files(
        self, index: PackageIndex, project: str, selection: FileFilter
    ) -> tuple[list[ListedFile], bool]:
        if index.links:
            files = self._of_links(index)
            return [item for item in files if selection.accepts(item.filename, item.uploaded)], bool(files)
        url = _project_address(index, project)
        if self._memory and (cached_page := self._memory.get(url, selection.key)):
            return list(cached_page.files), cached_page.some
        page = self._page(index, url, project)
        if page is None:
            return [], False
        try:
            matches, some = _read_project(page, project, selection)
            check_page_tags(item.filename for item in matches)
        except _BAD as err:
            raise FetchError(
                f"{index.url} does not answer as a Simple API: {display_text(str(err))}",
                hint="check pip's index-url",
            ) from None
        if self._memory:
            self._memory.put(url, selection.key, page.fresh, matches, some=some)
        return matches, some

    def refused(self, index: PackageIndex, project: str) -> str | None:
        """Return a project's address if it answered 403, else None.

        Such an answer was taken as an empty list.
        """
        url = _project_address(index, project)
        return url if url in self._refused else None

    def save(self) -> None:
        """Save the fresh pages for the next run."""
        if self._memory:
            self._memory.save()

    def _is_silent(self, index: PackageIndex) -> bool:
        return index.ruled or any(pattern.fullmatch(index.url.rstrip("/")) for pattern in self._silent)

    def _page(self, index: PackageIndex, url: str, project: str) -> Page | None:
        with contextlib.suppress(KeyError):
            return self._pages[url]
        page: Page | None = None
        try:
            page = self._net.page(url, accept=simple.ACCEPT_SUPPORTED, most=LARGEST)
        except NotFoundError:
            pass
        except AccessDeniedError as err:
            if not isinstance(err, ForbiddenError) or not self._is_silent(index):
                message = f"the index {index.url} gives no list of the files of {project}: {err}"
                raise FetchError(message, hint=f"{_LOGIN} {project}=URL") from None
            self._refused.add(url)
        self._pages[url] = page
        self._forget_oldest()
        return page

    def _forget_oldest(self) -> None:
        """Forget the oldest pages above `_MOST_KEPT`; each is fetched again if it is needed again."""
        pages = [(url, len(page.content)) for url, page in list(self._pages.items()) if page]
        total = sum(size for _, size in pages)
        for url, size in pages[:-1]:
            if total <= _MOST_KEPT:
                break
            self._pages.pop(url, None)
            total -= size

    def _of_links(self, index: PackageIndex) -> list[ListedFile]:
        if index.url not in self._links:
            self._links[index.url] = self._read_links(index)
        return self._links[index.url]

    def _read_links(self, index: PackageIndex) -> list[ListedFile]:
        place = index.url
        if place.startswith("file:") and local_path(place).is_dir():
            paths = sorted(path for path in local_path(place).iterdir() if path.is_file())
            files = (convert_file(filename=path.name, url=path.as_uri()) for path in paths)
            return [item for item in files if item is not None]
        try:
            page = self._net.page(place, accept="text/html", most=LARGEST)
        except NotFoundError:
            return []
        except AccessDeniedError as err:
            if not isinstance(err, ForbiddenError) or not self._is_silent(index):
                raise
            self._refused.add(place)
            return []
        try:
            links = list(_parse_links(page))
            check_page_tags(file.filename for file in links)
        except _BAD as err:
            raise FetchError(
                f"{place} is no page of links: {display_text(str(err))}", hint="check pip's find-links"
            ) from None
        return links


def _parse_links(page: Page) -> Iterator[ListedFile]:
    """Yield the files of a page of links; an odd link is left out."""
    if len(page.content) > _LARGEST_READ:
        raise ValueError("it is too long")
    for anchor in read_anchors(page.content.decode(errors="replace")):
        url = join_link(page.url, anchor.get("href", "")) if anchor.get("href") else None
        if url is None:
            continue
        file = convert_file(
            filename=urllib.parse.unquote(posixpath.basename(urllib.parse.urlsplit(url).path)), url=url,
            hashes=_fragment_hashes(url), requires_python=anchor.get("data-requires-python"),
            yanked=anchor.get("data-yanked"),
        )  # fmt: skip
        if file is not None:
            yield file


def _no_list_error(index: PackageIndex, err: FetchError) -> NoListError:
    return NoListError(str(err), hint=err.hint, place=index.url)


def _mirror_hint(index: PackageIndex) -> str:
    """Return how to name a mirror of a service, or "".

    It is empty for an index of the machine's own configuration.
    """
    if not index.service:
        return ""
    return f"check the network and the proxy settings, or name a mirror: --service {shlex.quote(index.service)}=URL"


def _project_address(index: PackageIndex, project: str) -> str:
    return index.url if index.links else f"{index.url}/{project}/"


def _read_project(page: Page, project: str, selection: FileFilter) -> tuple[list[ListedFile], bool]:
    media = page.content_type.split(";")[0].strip() or "text/html"
    if "json" in media:
        if media not in _JSON:
            raise simple.UnsupportedMIMEType(media)
        version, some, matches = read_json_page(page, selection)
    else:
        text = page.content.decode()
        check_list(text)
        for count, _ in enumerate(_ANCHOR.finditer(text)):
            check_count(count)
        head, *anchors = _ANCHOR.split(text)
        # Parsing ten thousand links takes seconds.
        text, some = "".join(anchor for anchor in anchors if selection.text in anchor), bool(anchors)
        longest = max(map(len, (head, *anchors)))
        if longest > _LARGEST_HEAD or len(text) > _LARGEST_READ:
            raise ValueError("it is no list of files of a project: it is too long")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", simple.APIVersionWarning)
            details = simple.parse_project_details(head + text, media, project)
        version = str(details.get("meta", {}).get("api-version", "1.0"))
        files = (
            _parse_html_file(page.url, dict(file))
            for file in details["files"]
            if selection.accepts(file["filename"], None)
        )
        matches = [item for item in files if item is not None]
    if version.partition(".")[0] != "1":
        raise simple.UnsupportedAPIVersion(version)
    return matches, some


def _parse_html_file(page: str, file: Mapping[str, Any]) -> ListedFile | None:
    url = join_link(page, file["url"])
    if url is None:
        return None
    yanked = file.get("yanked", False)
    return convert_file(
        filename=file["filename"], url=url, hashes=file.get("hashes", {}), requires_python=file.get("requires-python"),
        yanked=None if yanked is False else yanked if isinstance(yanked, str) else "",
        core_metadata=parse_core_metadata(file.get("core-metadata")),
    )  # fmt: skip


def _fragment_hashes(url: str) -> dict[str, str]:
    algorithm, equals, value = urllib.parse.urlsplit(url).fragment.partition("=")
    return {algorithm: value} if equals else {}
