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


def of_file(path: str) -> str:
    """Return the origin of an installation from a local file."""
    return f"{_FILE}{path}"


def of_address(url: str) -> str:
    """Return the origin of an installation from an own address."""
    return secrets.redact(url)


def of_record(record: Mapping[str, Any]) -> tuple[str, str]:
    """Return origin and sha256 of an archive's `direct_url.json`.

    Each is empty if it is not stated. https://packaging.python.org/en/latest/specifications/direct-url/
    """
    url, archive = record.get("url"), record.get("archive_info")
    if not isinstance(archive, dict) or not isinstance(url, str) or len(url) > LONGEST_ROW:
        return "", ""
    found = read_origin(url, editable=False)
    if found is None or found.kind != "archive":
        return "", ""  # a path of a conda build
    hashes = archive.get("hashes")
    told = hashes.get("sha256") if isinstance(hashes, dict) else archive.get("hash")
    sha256 = str(told).removeprefix("sha256=")
    origin = of_address(found.url) if found.url else of_file(found.path or "")
    return origin, sha256 if re.fullmatch(r"[0-9a-f]{64}", sha256) else ""


def one_name(one: str, other: str) -> bool:
    """Return whether two origins are files with one name.

    Such files in two places may be one file.
    """
    return all(origin.startswith(_FILE) for origin in (one, other)) and (
        one.rpartition("/")[2] == other.rpartition("/")[2]
    )
