"""What a source archive states about its age: times of its members, its list of changes, its build back end."""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
import zlib
from lzma import LZMAError

from msgspec import Struct

from reprobuild.ecosystems.pypi.page_cache import ListedFile
from reprobuild.ecosystems.pypi.wheel_tail import read_zip_time
from reprobuild.errors import BuildError, FetchError
from reprobuild.infra.http.client import Net
from reprobuild.infra.untrusted.tars import UNREADABLE, members, open_stream
from reprobuild.infra.untrusted.zips import UNREADABLE as BAD_ZIP
from reprobuild.resolve.ages.changelog import LARGEST, is_changelog, read_entry_day

LARGEST_ARCHIVE = 32 << 20
_MOST_UNPACKED = 256 << 20
_REQUIRES = re.compile(r"requires\s*=\s*\[(?P<items>[^\]]{0,2000})\]")


class SdistFacts(Struct, frozen=True, kw_only=True):
    """Facts of a source archive; times are in seconds since 1970, and 0 is unknown.

    `written` is the time in the header of gzip, `newest` that of the newest member, and `same` is true if all members
    have it. `entry` is the day in the version's entry of the list of changes. `pins` is true if pyproject.toml limits
    the version of a build requirement, or is not there.
    """

    written: int = 0
    newest: int = 0
    same: bool = False
    entry: int = 0
    pins: bool = True


def read_sdist_facts(file: ListedFile, version: str, net: Net) -> SdistFacts | None:
    """Return the facts of a source archive on a server, or None if it cannot be read."""
    if file.size > LARGEST_ARCHIVE:
        return None
    try:
        content = net.send("GET", file.url, good=(200,), headers={"Accept-Encoding": "identity"},
                           most=LARGEST_ARCHIVE).content  # fmt: skip
        expected = file.hashes.get("sha256", "").lower()
        if expected and hashlib.sha256(content).hexdigest() != expected:
            return None
        return parse_sdist(content, file.filename, version)
    except (FetchError, BuildError, OSError, zlib.error, LZMAError, *UNREADABLE, *BAD_ZIP):
        return None


def parse_sdist(content: bytes, filename: str, version: str) -> SdistFacts:
    """Return the facts of a source archive. Raises errors of damaged or malicious archives."""
    if filename.lower().endswith(".zip"):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            times = {read_zip_time(info) for info in archive.infolist()}
        return SdistFacts(newest=max(times, default=0), same=len(times) == 1)
    written = int.from_bytes(content[4:8], "little") if content[:2] == b"\x1f\x8b" else 0
    moments: set[int] = set()
    entry, pins, unpacked = 0, True, 0
    with open_stream(io.BytesIO(content), "r|*") as tar:
        for member in members(tar, filename, packed=len(content)):
            moments.add(max(0, int(member.mtime)))
            unpacked += member.size
            if unpacked > _MOST_UNPACKED:
                raise ValueError("the archive is too large")
            path = member.name.removeprefix("./").partition("/")[2]
            wished = path == "pyproject.toml" or is_changelog(path)
            stream = tar.extractfile(member) if wished and member.isfile() else None
            text = stream.read(LARGEST).decode(errors="replace") if stream else ""
            if path == "pyproject.toml":
                pins = has_pins(text)
            elif text:
                entry = max(entry, read_entry_day(text, version) or 0)
    return SdistFacts(
        written=written, newest=max(moments, default=0), same=len(moments) == 1, entry=entry, pins=pins
    )


def has_pins(pyproject: str) -> bool:
    """Return whether a build requirement excludes newer versions, or none is stated."""
    match = _REQUIRES.search(pyproject)
    return match is None or any(sign in match["items"] for sign in ("==", "<", "~=", "@"))
