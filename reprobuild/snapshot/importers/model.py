"""The values of an import: files of a snapshot, and the origin of each value in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from msgspec import Struct

from reprobuild.infra.untrusted.strings import Line
from reprobuild.snapshot.importers.source import ImportSource

FILE = "import.json"


class ValueOrigin(Struct, frozen=True, kw_only=True):
    """The origin of one line of the snapshot.

    `file` and `line` (from 1; 0 for the whole file) are of the snapshot, `source` and `field` of the imported file.
    """

    file: Line
    line: int
    source: Line
    field: Line


class UnusedField(Struct, frozen=True, kw_only=True):
    """A field of an imported file that gives nothing to the snapshot, and the reason."""

    source: Line
    field: Line
    reason: Line


class ImportFacts(Struct, frozen=True, kw_only=True):
    """The contents of `import.json`.

    `started` is the start of the run in ISO 8601, `started_from` its origin; both are empty if unknown.
    """

    version: Literal[1] = 1
    format: Line
    started: Line = ""
    started_from: Line = ""
    origins: tuple[ValueOrigin, ...] = ()
    unused: tuple[UnusedField, ...] = ()


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
