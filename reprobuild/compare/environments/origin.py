"""The origin of a Python distribution, and its comparison."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from reprobuild.snapshot.parsers.pip_freeze_url import read_origin
from reprobuild.snapshot.text import LONGEST_ROW
from reprobuild_portable import secrets

# Of a distribution that a freeze lists only by name and version; conda's may appear in this form, too.
INDEX = "an index"
CONDA = "conda"
_FILE = "the file "


def file_origin(path: str) -> str:
    """Return the origin of an installation from a local file."""
    return f"{_FILE}{path}"


def address_origin(url: str) -> str:
    """Return the origin of an installation from an own address."""
    return secrets.redact(url)


def archive_origin(record: Mapping[str, Any]) -> tuple[str, str]:
    """Return origin and sha256 of an archive's `direct_url.json`.

    Each is empty if it is not stated. https://packaging.python.org/en/latest/specifications/direct-url/
    """
    url, archive = record.get("url"), record.get("archive_info")
    if not isinstance(archive, dict) or not isinstance(url, str) or len(url) > LONGEST_ROW:
        return "", ""
    url_origin = read_origin(url, editable=False)
    if url_origin is None or url_origin.kind != "archive":
        return "", ""  # a path of a conda build
    hashes = archive.get("hashes")
    digest = hashes.get("sha256") if isinstance(hashes, dict) else archive.get("hash")
    sha256 = str(digest).removeprefix("sha256=")
    origin = address_origin(url_origin.url) if url_origin.url else file_origin(url_origin.path or "")
    return origin, sha256 if re.fullmatch(r"[0-9a-f]{64}", sha256) else ""


def same_file_name(first: str, second: str) -> bool:
    """Return whether two origins are files with one name.

    Such files in two places may be one file.
    """
    return all(origin.startswith(_FILE) for origin in (first, second)) and (
        first.rpartition("/")[2] == second.rpartition("/")[2]
    )
