"""The files of a page in JSON (PEP 691, PEP 700, PEP 714)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from reprobuild.ecosystems.pypi.core_metadata import parse_core_metadata
from reprobuild.ecosystems.pypi.page_cache import ListedFile
from reprobuild.ecosystems.pypi.page_text import join_link
from reprobuild.infra.http.model import Page
from reprobuild.infra.untrusted.strings import FileName, Hex, Href, Line, Text, Word, is_valid

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


class _Meta(Struct, frozen=True, rename="kebab"):
    api_version: Line = "1.0"


class _Project(Struct, frozen=True):
    name: Line
    files: tuple[_File, ...]
    meta: _Meta = _Meta()


class _Entries(Struct, frozen=True):
    """As `_Project`, for a page with odd entries."""

    name: Line
    files: tuple[msgspec.Raw, ...]
    meta: _Meta = _Meta()


_PROJECT = msgspec.json.Decoder(_Project)
_ENTRIES = msgspec.json.Decoder(_Entries)
_FILE = msgspec.json.Decoder(_File)
_METADATA: msgspec.json.Decoder[bool | dict[str, str] | None] = msgspec.json.Decoder(
    bool | dict[Word, Hex] | None
)


def _decode_project(content: bytes) -> _Project:
    """Return the contents of a JSON page.

    An odd entry, for example with a strange file name, must not hide the others.
    """
    try:
        return _PROJECT.decode(content)
    except msgspec.ValidationError:
        page = _ENTRIES.decode(content)
    return _Project(name=page.name, meta=page.meta, files=tuple(_decode_files(page.files)))


def _decode_files(entries: Sequence[msgspec.Raw]) -> Iterator[_File]:
    for entry in entries:
        with contextlib.suppress(msgspec.ValidationError):
            yield _FILE.decode(entry)


def _decode_metadata(file: _File) -> bool | dict[str, str] | None:
    """Return the value of the field about a metadata file, else of its older name; False if it is odd."""
    value = file.dist_info_metadata if file.core_metadata is _NO_VALUE else file.core_metadata
    if value is _NO_VALUE:
        return None
    try:
        return _METADATA.decode(value)
    except msgspec.MsgspecError:
        return False


def read_json_page(page: Page, needle: str) -> tuple[str, bool, list[ListedFile]]:
    """Return the version of a page, whether it has any files, and those whose names contain a text.

    Raises:
        msgspec.MsgspecError: it is not a list of files.
    """
    read = _decode_project(page.content)
    files = (_parse_json_file(page.url, file) for file in read.files if needle in file.filename)
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
        return msgspec.convert(fields, type=ListedFile)
    except msgspec.ValidationError:
        return None
