"""The values of an import: files of a snapshot, and the origin of each value in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from msgspec import Struct

from reprobuild.snapshot.import_facts import ImportFacts
from reprobuild.snapshot.importers.source import ImportSource


class ImportedSnapshot(Struct, frozen=True, kw_only=True):
    """The files of a snapshot by name, and the facts on them."""

    files: dict[str, bytes]
    facts: ImportFacts


class Importer(NamedTuple):
    """One format.

    `recognises` looks at names of files only; `read` raises SnapshotError for a damaged file.
    """

    name: str
    recognises: Callable[[ImportSource], bool]
    read: Callable[[ImportSource], ImportedSnapshot]
