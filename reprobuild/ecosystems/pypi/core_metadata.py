"""The metadata file that an index may publish beside a wheel.

Format: https://packaging.python.org/specifications/simple-repository-api/ (PEP 658, PEP 714).
"""

from __future__ import annotations

import hashlib
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct
from packaging.utils import InvalidWheelFilename, canonicalize_name
from packaging.version import InvalidVersion, Version

from reprobuild.ecosystems.pypi.page_cache import ListedFile
from reprobuild.errors import BuildError, FetchError
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.retry import RetryableError
from reprobuild.infra.untrusted.metadata import read_metadata
from reprobuild.infra.untrusted.strings import Sha256, Text, is_valid
from reprobuild.infra.untrusted.wheels import read_wheel_filename

MOST = 4 << 20  # bytes of a file; most of it is the description
LARGEST_HEADER = 1 << 18  # bytes


class PublishedMetadata(Struct, frozen=True, kw_only=True):
    """The header of a metadata file."""

    header: Text


def read_published_metadata(file: ListedFile, net: Net) -> PublishedMetadata | None:
    """Return the metadata that the index publishes for a wheel, or None if it is missing or wrong.

    A server without the file answers soon, so a failure is not retried: the wheel itself has the same text.
    """
    if file.core_metadata is None:
        return None
    try:
        content = net.send("GET", _address(file.url), good=(200,), headers={"Accept-Encoding": "gzip, deflate"},
                           most=MOST, patient=False).content  # fmt: skip
        if file.core_metadata and hashlib.sha256(content).hexdigest() != file.core_metadata:
            return None
        header = cut_header(content)
        return PublishedMetadata(header=header) if _describes(header, file.filename) else None
    except (FetchError, RetryableError, BuildError, InvalidWheelFilename, InvalidVersion):
        return None


def parse_core_metadata(value: object) -> str | None:
    """Return the field of a page as `ListedFile` has it.

    Args:
        value: whether there is such a file, or its hashes.
    """
    if isinstance(value, dict) and value:  # another hash is not compared, so such a file is not used
        sha256 = str(value.get("sha256", "")).lower()
        return sha256 if is_valid(sha256, Sha256) else None
    return "" if value is True or isinstance(value, dict) else None


def cut_header(content: bytes) -> str:
    """Return the header of METADATA, which an empty line ends; empty if it is too long."""
    header, end, _ = content[:LARGEST_HEADER].replace(b"\r\n", b"\n").partition(b"\n\n")
    if not end and len(content) >= LARGEST_HEADER:
        return ""
    return f"{header.decode(errors='replace').rstrip()}\n" if header.strip() else ""


def _address(wheel: str) -> str:
    """Return the address of the metadata file: `.metadata` follows the path."""
    parts = urlsplit(wheel)
    return urlunsplit(parts._replace(path=f"{parts.path}.metadata", fragment=""))


def _describes(header: str, filename: str) -> bool:
    """Return whether a header is that of a wheel, as its name has it."""
    name, version, _ = read_wheel_filename(filename)
    fields = read_metadata(header.encode(), filename)
    return (
        bool(fields.get("metadata_version"))
        and canonicalize_name(fields.get("name", "")) == name
        and Version(fields.get("version", "")) == version
    )
