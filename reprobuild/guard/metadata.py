"""The metadata of a distribution: https://packaging.python.org/en/latest/specifications/core-metadata/."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.metadata import RawMetadata


def read_metadata(text: str | bytes) -> RawMetadata:
    """Return the fields of a METADATA or PKG-INFO that are understood; nothing is validated."""
    from packaging.metadata import parse_email  # with the list of all licences, 20 ms; most were read before

    return parse_email(text)[0]
