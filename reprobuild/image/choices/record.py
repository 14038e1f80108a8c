"""Saved choices of compilers in an output directory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from reprobuild.errors import UsageError
from reprobuild.image.choices.archive import ChoiceArchive
from reprobuild.image.choices.platform import ChoicePlatform
from reprobuild.infra.display import display_error
from reprobuild.infra.untrusted.decode import decode_json
from reprobuild.infra.untrusted.json_documents import refuse_repeated_keys
from reprobuild.infra.untrusted.regular_files import read_plain
from reprobuild.infra.untrusted.strings import Sha256, Size, Word

CHOICES = "choices"
_RECORD, _ARCHIVE = ".json", ".tar.zst"
LARGEST_RECORD = 1 << 20  # bytes; a record has some 10,000
_MOST_RECORDS = 1000


class CacheSize(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The numbers of measurements, compiled units and files in a cache."""

    measured: Size
    compiled: Size
    files: Size


class SavedChoices(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The record of saved choices: their archive, their platform, and the lock of the image.

    `caches` has the size of each cache, by its consumer.
    """

    version: Literal[1] = 1
    lock: Sha256
    archive: ChoiceArchive
    platform: ChoicePlatform
    caches: dict[Word, CacheSize]


class ChoiceFile(Struct, frozen=True, kw_only=True):
    """Saved choices, with the bytes of their record and the directory of both files."""

    saved: SavedChoices
    document: bytes
    folder: Path

    @property
    def digest(self) -> str:
        """The sha256 of the record, which has that of the archive."""
        return hashlib.sha256(self.document).hexdigest()

    @property
    def name(self) -> str:
        """The name for people: the first digits of the digest."""
        return self.digest[:12]

    @property
    def record(self) -> Path:
        """The path of the record."""
        return self.folder / (self.digest + _RECORD)

    @property
    def archive(self) -> Path:
        """The path of the archive."""
        return self.folder / (self.saved.archive.sha256 + _ARCHIVE)


def read_choices(out: Path) -> tuple[ChoiceFile, ...]:
    """Return all saved choices of an output directory, in the order of their names.

    Raises:
        UsageError: a record is damaged.
    """
    return tuple(_read_records(out / CHOICES))


def _read_records(folder: Path) -> Iterator[ChoiceFile]:
    try:
        paths = sorted(path for path in folder.iterdir() if path.name.endswith(_RECORD))
    except OSError:
        return
    for path in paths[:_MOST_RECORDS]:
        try:
            document = read_plain(path, LARGEST_RECORD)
            saved = parse_choices(document)
        except (OSError, msgspec.MsgspecError, ValueError, RecursionError) as err:
            raise UsageError(
                f"{path} is damaged, or of another version of reprobuild: {display_error(err)}",
                hint="remove it and save the choices again, or run with --choices off",
            ) from None
        file = ChoiceFile(saved=saved, document=document, folder=folder)
        if file.record.name != path.name:
            raise UsageError(
                f"{path} is the record of other choices: {file.digest}",
                hint="remove it and save the choices again, or run with --choices off",
            )
        yield file


def parse_choices(document: bytes) -> SavedChoices:
    """Return the record of a document.

    Raises:
        msgspec.MsgspecError, ValueError, RecursionError: it is not a record.
    """
    saved = decode_json(document, SavedChoices)
    refuse_repeated_keys(document)
    return saved


def encode_choices(saved: SavedChoices) -> bytes:
    """Return the document of a record."""
    return msgspec.json.format(msgspec.json.encode(saved, order="sorted"), indent=1) + b"\n"
