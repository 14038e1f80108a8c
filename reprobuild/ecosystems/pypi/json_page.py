"""The files of a page in JSON (PEP 691, PEP 700, PEP 714)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec import Struct

from reprobuild.ecosystems.pypi.core_metadata import parse_core_metadata
from reprobuild.ecosystems.pypi.page_cache import ListedFile
from reprobuild.ecosystems.pypi.page_text import MOST_LINKS, check_count, join_link
from reprobuild.infra.http.model import Page
from reprobuild.infra.untrusted.decode import decode_value, json_decoder
from reprobuild.infra.untrusted.strings import FileName, Hex, Href, Line, Text, Word, is_valid


class FileFilter(Struct, frozen=True, kw_only=True):
    """A choice among the files of a page.

    Their names contain `text`, and `also` is true for a name and its upload time; `label` names it in the memory of
    pages.
    """

    text: str = ""
    label: str = ""
    also: Callable[[str, str | None], bool] | None = None

    @property
    def key(self) -> str:
        """The text and the label."""
        return f"{self.text} {self.label}" if self.label else self.text

    def accepts(self, filename: str, uploaded: str | None) -> bool:
        """Return whether it selects a file."""
        return self.text in filename and (self.also is None or self.also(filename, uploaded))


ALL_FILES = FileFilter()
_VALUES = 10  # of a file; the longest pages have half of it
_NO_VALUE = msgspec.Raw(b"null")


class _File(Struct, frozen=True, rename="kebab"):
    filename: FileName
    url: Href
    hashes: dict[Word, Hex] = {}
    requires_python: Line | None = None
    size: int | None = None
    yanked: bool | Text = False
    upload_time: Line | None = None
    core_metadata: msgspec.Raw = _NO_VALUE
    dist_info_metadata: msgspec.Raw = _NO_VALUE


class _Choice(Struct, frozen=True, rename="kebab"):
    """The fields by which a file is chosen: most files of a page are not, and all fields take longer."""

    filename: FileName
    upload_time: Line | None = None


class _Meta(Struct, frozen=True, rename="kebab"):
    api_version: Line = "1.0"


class _Entries(Struct, frozen=True):
    """A page; its entries are decoded later, because an odd one must not hide the others."""

    name: Line
    files: tuple[msgspec.Raw, ...]
    meta: _Meta = _Meta()


_ENTRIES = json_decoder(_Entries)
_CHOICE = json_decoder(_Choice)
_FILE = json_decoder(_File)
_METADATA: msgspec.json.Decoder[bool | dict[str, str] | None] = json_decoder(bool | dict[Word, Hex] | None)


def _decode_files(entries: Sequence[msgspec.Raw], selection: FileFilter) -> Iterator[_File]:
    """Yield the wanted files; an odd entry, for example with a strange file name, is left out."""
    for entry in entries:
        try:
            if selection is not ALL_FILES:
                choice = _CHOICE.decode(entry)
                if not selection.accepts(choice.filename, choice.upload_time):
                    continue
            file = _FILE.decode(entry)
        except msgspec.ValidationError:
            continue
        yield file


def _decode_metadata(file: _File) -> bool | dict[str, str] | None:
    """Return the value of the field about a metadata file, else of its older name; False if it is odd."""
    value = file.dist_info_metadata if file.core_metadata is _NO_VALUE else file.core_metadata
    if value is _NO_VALUE:
        return None
    try:
        return _METADATA.decode(value)
    except msgspec.MsgspecError:
        return False


def read_json_page(page: Page, selection: FileFilter) -> tuple[str, bool, list[ListedFile]]:
    """Return the version of a page, whether it has any files, and the wanted ones.

    Raises:
        msgspec.MsgspecError: it is not a list of files. ValueError: it has too many values.
    """
    check_count(page.content.count(b","), _VALUES * MOST_LINKS)
    read = _ENTRIES.decode(page.content)
    check_count(len(read.files))
    files = (_parse_json_file(page.url, file) for file in _decode_files(read.files, selection))
    return read.meta.api_version, bool(read.files), [item for item in files if item is not None]


def _parse_json_file(page: str, file: _File) -> ListedFile | None:
    url = join_link(page, file.url)
    if url is None or (url != file.url and not is_valid(url, Href)):
        return None
    yanked = None if file.yanked is False else file.yanked if isinstance(file.yanked, str) else ""
    return ListedFile(  # its strings are valid: `_File` has the same types
        filename=file.filename, url=url, hashes=file.hashes, size=file.size or 0,
        requires_python=file.requires_python, yanked=yanked, uploaded=file.upload_time,
        core_metadata=parse_core_metadata(_decode_metadata(file)),
    )  # fmt: skip


def convert_file(**fields: object) -> ListedFile | None:
    """Return a listed file, or None if invalid.

    Its name and its address must be valid.
    """
    try:
        return decode_value(fields, ListedFile)
    except msgspec.ValidationError:
        return None
