"""Saved choices of compilers in an output directory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from reprobuild.errors import UsageError
from reprobuild.image.choices.archive import ChoiceArchive
from reprobuild.image.choices.platform import ChoicePlatform, hash_platform
from reprobuild.infra.display import display_error
from reprobuild.infra.untrusted.decode import decode_json
from reprobuild.infra.untrusted.json_documents import refuse_repeated_keys
from reprobuild.infra.untrusted.regular_files import open_within
from reprobuild.infra.untrusted.strings import Digest, Sha256, Size, Word
from reprobuild.infra.untrusted.write_below import refuse_link
from reprobuild.store.keyring import StoreKeyring

CHOICES = "choices"
_RECORD, _ARCHIVE = ".json", ".tar.zst"
LARGEST_RECORD = 64 << 10  # bytes; a record has some 10,000
MOST_RECORDS = 100  # platforms of one image
_MOST_CACHES = 100


class CacheSize(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The numbers of measurements, compiled units and files in a cache."""

    measured: Size
    compiled: Size
    files: Size


class SavedChoices(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The record of saved choices: their archive, their platform, and the image whose run made them.

    `lock` is the image's lock, and `image` the digest of its configuration, which has the hash of each layer. Only an
    image with the same configuration gets the choices: everyone can give another image a copy of the lock. `caches`
    has the size of each cache, by its consumer.
    """

    version: Literal[1] = 1
    lock: Sha256
    image: Digest
    archive: ChoiceArchive
    platform: ChoicePlatform
    caches: Annotated[dict[Word, CacheSize], Meta(max_length=_MOST_CACHES)]

    @property
    def target(self) -> str:
        """The sha256 of the facts by which a run selects choices: lock, image and platform."""
        return hashlib.sha256(f"{self.lock} {self.image} {hash_platform(self.platform)}".encode()).hexdigest()


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

    def open_archive(self, _: str = "rb") -> IO[bytes]:
        """Open the archive for reading; no link is followed, and a pipe is not waited for.

        Raises:
            OSError: it is missing, or no regular file.
        """
        return open_within(self.folder.parent, f"{self.folder.name}/{self.archive.name}")[0]


def read_choices(out: Path) -> tuple[ChoiceFile, ...]:
    """Return all saved choices of an output directory, in the order of their names.

    Raises:
        UsageError: a record is damaged, there are too many, or the directory is a link.
    """
    refuse_link(out / CHOICES, "the choices")
    return tuple(_read_records(out / CHOICES))


def refuse_too_many(folder: Path, count: int) -> None:
    """Refuse more records than a directory may have.

    Raises:
        UsageError: there are more.
    """
    if count > MOST_RECORDS:
        raise UsageError(
            f"{folder} has choices of more than {MOST_RECORDS} platforms",
            hint="remove the records (*.json) of those that are not needed, or run with --choices off",
        )


def _read_records(folder: Path) -> Iterator[ChoiceFile]:
    try:
        records = (path for path in folder.iterdir() if path.name.endswith(_RECORD))
        paths = sorted(islice(records, MOST_RECORDS + 1))
    except OSError:
        return
    refuse_too_many(folder, len(paths))
    for path in paths:
        try:
            document = _read_record(folder, path.name)
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


def _read_record(folder: Path, name: str) -> bytes:
    """Return the bytes of a record, or more than it may have; no link is followed."""
    with open_within(folder.parent, f"{folder.name}/{name}")[0] as stream:
        return stream.read(LARGEST_RECORD + 1)


def parse_choices(document: bytes) -> SavedChoices:
    """Return the record of a document.

    Raises:
        msgspec.MsgspecError, ValueError, RecursionError: it is not a record.
    """
    if len(document) > LARGEST_RECORD:
        raise ValueError(f"it has more than {LARGEST_RECORD} bytes")
    saved = decode_json(document, SavedChoices)
    refuse_repeated_keys(document)
    return saved


def make_choice_file(saved: SavedChoices, folder: Path) -> ChoiceFile:
    """Return new choices of a directory; nothing is written.

    Raises:
        UsageError: their record could not be read again.
    """
    document = encode_choices(saved)
    try:
        parse_choices(document)
    except (msgspec.MsgspecError, ValueError) as err:
        raise UsageError(
            f"no run could read the record of these choices: {display_error(err)}",
            hint="run without --save-choices: the lock or this machine has facts that a record cannot hold",
        ) from None
    return ChoiceFile(saved=saved, document=document, folder=folder)


def remember_accepted(file: ChoiceFile, known: StoreKeyring) -> None:
    """Record that the user saved or accepted choices, beside the keys that the user trusts.

    If that is not possible, the next run asks again.
    """
    known.add(_key(file))


def is_accepted(file: ChoiceFile, known: StoreKeyring) -> bool:
    """Return whether the user saved or accepted choices."""
    return known.has(_key(file))


def _key(file: ChoiceFile) -> bytes:
    """Return the key of accepted choices: it binds their record to the image that made them."""
    return f"accepted choices, 2 {file.digest} {file.saved.image}".encode()


def encode_choices(saved: SavedChoices) -> bytes:
    """Return the document of a record."""
    return msgspec.json.format(msgspec.json.encode(saved, order="sorted"), indent=1) + b"\n"
