"""The value of an import: files of a snapshot, and the origin of each value in them."""

from __future__ import annotations

from msgspec import Struct

from reprobuild.snapshot.import_facts import ImportFacts


class ImportedSnapshot(Struct, frozen=True, kw_only=True):
    """The files of a snapshot by name, and the facts on them."""

    files: dict[str, bytes]
    facts: ImportFacts
