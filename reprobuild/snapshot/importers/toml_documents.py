"""TOML documents of package managers."""

from __future__ import annotations

from typing import Any

import msgspec

from reprobuild.errors import SnapshotError
from reprobuild.infra.display import display_text
from reprobuild.snapshot import text


def load_toml(data: bytes, file: str) -> dict[str, Any]:
    """Return a TOML document.

    Raises:
        SnapshotError: it is not text, or not TOML.
    """
    content = text.decode(data, file)
    text.check_values(content, file)
    try:
        document: dict[str, Any] = msgspec.toml.decode(content)
    except (msgspec.MsgspecError, ValueError, RecursionError) as err:
        raise SnapshotError(
            f"{display_text(file)} is not TOML: {display_text(str(err))}",
            hint="look at what wrote it; a merge may have left its marks",
        ) from None
    return document


def tables(document: Any, key: str) -> list[dict[str, Any]]:
    """Return the array of tables of a key; entries of another type are left out."""
    value = document.get(key) if isinstance(document, dict) else None
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def table(document: Any, key: str) -> dict[str, Any]:
    """Return the table of a key; empty if there is none."""
    value = document.get(key) if isinstance(document, dict) else None
    return value if isinstance(value, dict) else {}


def string(document: Any, key: str) -> str:
    """Return the string of a key; empty if there is none."""
    value = document.get(key) if isinstance(document, dict) else None
    return value if isinstance(value, str) else ""
