"""What a source archive states about its age: times of its members, its list of changes, its build back end."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
import zipfile
import zlib
from lzma import LZMAError

from msgspec import Struct
from packaging.utils import canonicalize_name

from reprobuild.ecosystems.pypi.page_cache import ListedFile
from reprobuild.ecosystems.pypi.wheel_tail import read_zip_time
from reprobuild.errors import BuildError, FetchError
from reprobuild.infra.http.client import Net
from reprobuild.infra.untrusted.strings import Line
from reprobuild.infra.untrusted.tars import UNREADABLE, members, open_stream
from reprobuild.infra.untrusted.zips import UNREADABLE as BAD_ZIP
from reprobuild.resolve.ages.changelog import LARGEST, is_changelog, read_entry_day

LARGEST_ARCHIVE = 32 << 20
_MOST_UNPACKED = 256 << 20
_MOST_CHANGELOGS = 20
_MOST_ROWS = 100_000  # of the directory of a zip: each costs half a kilobyte
_LARGEST_PYPROJECT = 1 << 16
_REQUIRES = re.compile(r"requires\s{0,20}=\s{0,20}\[")
_LONGEST_REQUIRES = 4000  # characters
_ITEM = re.compile(r"""["']([^"'\n]{1,200})["']""")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,80}")


class SdistFacts(Struct, frozen=True, kw_only=True):
    """Facts of a source archive; times are in seconds since 1970, and 0 is unknown.

    `written` is the time in the header of gzip, `newest` that of the newest member, and `same` is true if all members
    have it. `entry` is the day in the version's entry of the list of changes. `free` are the build requirements of
    pyproject.toml that accept each newer version, by canonical name.
    """

    written: int = 0
    newest: int = 0
    same: bool = False
    entry: int = 0
    free: tuple[Line, ...] = ()


def read_sdist_facts(file: ListedFile, version: str, net: Net) -> SdistFacts | None:
    """Return the facts of a source archive on an index, or None if it cannot be read."""
    if file.size > LARGEST_ARCHIVE:
        return None
    try:
        content = _read(file.url, net)
        expected = file.hashes.get("sha256", "").lower()
        if expected and hashlib.sha256(content).hexdigest() != expected:
            return None
        return parse_sdist(content, file.filename, version)
    except (FetchError, BuildError, OSError, zlib.error, LZMAError, *UNREADABLE, *BAD_ZIP):
        return None


def _read(url: str, net: Net) -> bytes:
    if url.startswith("file:"):
        return net.page(url, most=LARGEST_ARCHIVE).content
    headers = {"Accept-Encoding": "identity"}
    return net.send("GET", url, good=(200,), headers=headers, most=LARGEST_ARCHIVE).content


def parse_sdist(content: bytes, filename: str, version: str) -> SdistFacts:
    """Return the facts of a source archive. Raises errors of damaged or malicious archives."""
    if filename.lower().endswith(".zip"):
        if content.count(b"PK\1\2") > _MOST_ROWS:
            raise ValueError("the archive has too many members")
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            times = {read_zip_time(info) for info in archive.infolist()}
        return SdistFacts(newest=max(times, default=0), same=len(times) == 1)
    written = int.from_bytes(content[4:8], "little") if content[:2] == b"\x1f\x8b" else 0
    moments: set[int] = set()
    entry, unpacked, lists, left = 0, 0, 0, LARGEST
    free: tuple[str, ...] = ()
    with open_stream(io.BytesIO(content), "r|*") as tar:
        for member in members(tar, filename, packed=len(content)):
            moments.add(max(0, int(member.mtime)))
            unpacked += member.size
            if unpacked > _MOST_UNPACKED:
                raise ValueError("the archive is too large")
            path = member.name.removeprefix("./").partition("/")[2]
            if path == "pyproject.toml" and member.isfile():
                free = read_free_requires(_read_text(tar, member, _LARGEST_PYPROJECT))
            elif is_changelog(path) and member.isfile() and lists < _MOST_CHANGELOGS:
                lists += 1
                text = _read_text(tar, member, left)
                left -= len(text)
                entry = max(entry, read_entry_day(text, version) or 0)
    return SdistFacts(
        written=written, newest=max(moments, default=0), same=len(moments) == 1, entry=entry, free=free
    )


def _read_text(tar: tarfile.TarFile, member: tarfile.TarInfo, most: int) -> str:
    stream = tar.extractfile(member)
    return stream.read(most).decode(errors="replace") if stream else ""


def read_free_requires(pyproject: str) -> tuple[str, ...]:
    """Return the names of the build requirements that exclude no newer version."""
    match = _REQUIRES.search(pyproject)
    after = pyproject[match.end() :][:_LONGEST_REQUIRES] if match else ""
    array, end, _ = after.partition("]")
    items = [item[1] for item in _ITEM.finditer(array)] if end else []
    names = (_NAME.match(item) for item in items if not any(sign in item for sign in ("==", "<", "~=", "@")))
    return tuple(str(canonicalize_name(name[0])) for name in names if name)
