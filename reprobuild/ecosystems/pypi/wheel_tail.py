"""The end of a wheel on an index: its directory, and its metadata.

A zip archive has its directory at its end, and a wheel its metadata just before (https://peps.python.org/pep-0427/), so
one request for a range reads both.
"""

from __future__ import annotations

import calendar
import io
import re
import zipfile
from typing import cast

from msgspec import Struct

from reprobuild.ecosystems.pypi.core_metadata import LARGEST_HEADER, cut_header
from reprobuild.errors import FetchError
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.file_scheme import local_path
from reprobuild.infra.untrusted.regular_files import open_plain
from reprobuild.infra.untrusted.strings import Line, Text
from reprobuild.infra.untrusted.zips import UNREADABLE

TAIL = 1 << 16  # bytes of a request
MOST = 4 << 20  # bytes of one wheel
_WHOLE = 1 << 20  # of a wheel whose server knows no ranges
_RANGE = re.compile(r"bytes (\d{1,15})-\d{1,15}/(\d{1,15})")
_GENERATOR = re.compile(r"^Generator: *([^\r\n]{1,100})", re.MULTILINE)


class WheelFacts(Struct, frozen=True, kw_only=True):
    """Facts of a wheel.

    `newest` is the newest time of a member, in seconds since 1970 as if it were in UTC (a zip archive has no time
    zone), 0 if none is valid; `same` is true if all members have it. `generator` is the program that made the wheel,
    and `metadata` the header of METADATA; both are empty if they are not readable.
    """

    newest: int
    same: bool
    generator: Line
    metadata: Text


class RangedFile(io.RawIOBase):
    """A file on a server or at a `file:` address, of which only the requested parts are read.

    Raises FetchError if the server knows no ranges and the file is large, and OSError if it answers something else or
    too much is requested.
    """

    def __init__(self, url: str, net: Net) -> None:
        super().__init__()
        self._net, self._url = net, url
        self._left = MOST
        self._place = 0
        self._start, self._window, self.size = self._fetch(f"bytes=-{TAIL}", _WHOLE)
        if self.size < 0:
            self._start, self.size = 0, len(self._window)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self.size}[whence]
        if base + offset < 0:
            raise ValueError("a place before the file")
        self._place = base + offset
        return self._place

    def read(self, size: int = -1) -> bytes:
        wished = self.size - self._place if size < 0 else size
        end = min(self.size, self._place + wished)
        if end <= self._place:
            return b""
        if not self._start <= self._place <= end <= self._start + len(self._window):
            last = min(self.size, max(end, self._place + TAIL)) - 1
            if last - self._place >= self._left:
                raise OSError("too many bytes of the file are needed")
            self._start, self._window, _ = self._fetch(f"bytes={self._place}-{last}", self._left)
            end = min(end, self._start + len(self._window))
        content = self._window[self._place - self._start : end - self._start]
        self._place += len(content)
        return content

    def _fetch(self, ranges: str, most: int) -> tuple[int, bytes, int]:
        """Return the offset of a part, the part, and the size of the file; -1 if the part is all of it."""
        if self._url.startswith("file:"):
            return self._read_local(ranges.removeprefix("bytes="))
        headers = {"Range": ranges, "Accept-Encoding": "identity"}
        answer = self._net.send("GET", self._url, good=(200, 206), headers=headers, most=most)
        self._left -= len(answer.content)
        if answer.status == 200:
            return 0, answer.content, -1
        match = _RANGE.fullmatch(answer.headers.get("content-range", "").strip())
        if match is None or int(match[1]) + len(answer.content) > int(match[2]):
            raise OSError("the server answers with another part than requested")
        at_end = int(match[1]) + len(answer.content) == int(match[2])
        if not (ranges.startswith(f"bytes={match[1]}-") or (ranges.startswith("bytes=-") and at_end)):
            raise OSError("the server answers with another part than requested")
        return int(match[1]), answer.content, int(match[2])

    def _read_local(self, ranges: str) -> tuple[int, bytes, int]:
        first, _, last = ranges.partition("-")
        source, size = open_plain(local_path(self._url), links=True)
        with source:
            start = int(first) if first else max(0, size - int(last))
            source.seek(start)
            content = source.read(int(last) + 1 - start if first else int(last))
        self._left -= len(content)
        return start, content, size


def read_wheel_facts(url: str, net: Net) -> WheelFacts | None:
    """Return the facts of a wheel on an index, or None if its directory cannot be read."""
    try:
        with zipfile.ZipFile(cast("io.BytesIO", RangedFile(url, net))) as archive:
            infos = archive.infolist()
            times = {read_zip_time(info) for info in infos}
            return WheelFacts(
                newest=max(times, default=0),
                same=len(times) == 1,
                generator=_read_generator(archive, infos),
                metadata=_read_header(archive, infos),
            )
    except (FetchError, OSError, *UNREADABLE):
        return None


def read_zip_time(info: zipfile.ZipInfo) -> int:
    """Return the time of a member in seconds since 1970, as if it were in UTC; 0 if it is not valid."""
    year, month, day, hour, minute, second = info.date_time
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60):
        return 0
    return calendar.timegm((year, month, day, hour, minute, min(second, 59)))


def _read_member(archive: zipfile.ZipFile, infos: list[zipfile.ZipInfo], name: str) -> bytes:
    """Return the beginning of a file in the directory of the wheel's metadata."""
    for info in infos:
        if info.filename.count("/") == 1 and info.filename.endswith(f".dist-info/{name}"):
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                return b""
            with archive.open(info) as member:
                return member.read(LARGEST_HEADER)
    return b""


def _read_generator(archive: zipfile.ZipFile, infos: list[zipfile.ZipInfo]) -> str:
    match = _GENERATOR.search(_read_member(archive, infos, "WHEEL").decode(errors="replace"))
    text = match[1].strip() if match else ""
    return text if text.isprintable() else ""


def _read_header(archive: zipfile.ZipFile, infos: list[zipfile.ZipInfo]) -> str:
    """Return the header of METADATA; empty if it is too long."""
    return cut_header(_read_member(archive, infos, "METADATA"))
