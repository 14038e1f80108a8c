"""JSON files that trackers export, under any name: their top-level fields tell the format."""

from __future__ import annotations

from reprobuild.snapshot.importers.source import MOST_CANDIDATES, ImportSource


def find_export(source: ImportSource, *fields: str) -> str | None:
    """Return the first JSON file at the top that has all these fields, or None."""
    files = [name for name in source.names if "/" not in name and name.endswith(".json")]
    return next((name for name in files[:MOST_CANDIDATES] if source.fields(name).issuperset(fields)), None)
