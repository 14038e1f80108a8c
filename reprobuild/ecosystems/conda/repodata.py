"""The packages of a channel, from its repodata.

The file is fetched to the disk, and only the wanted names are parsed. conda-forge's has hundreds of
megabytes: it is never in our memory. Formats: https://github.com/conda/ceps/blob/main/cep-0036.md; `.zst` is
the same, compressed.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
from pathlib import Path

import msgspec
import zstandard
from msgspec import Struct

from reprobuild.ecosystems.conda.linking import run_rattler
from reprobuild.ecosystems.conda.package import split_filename
from reprobuild.errors import BuildError, FetchError
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.model import NotFoundError
from reprobuild.infra.untrusted.decode import decode_value
from reprobuild.infra.untrusted.strings import CondaName, FileName, Hex, Key, OptionalSha256, Text

# linux-64 of conda-forge has some 300 MB in 2025, 50 MB compressed.
LARGEST = 1 << 30
_ALLOWANCE = 4 << 30  # bytes of all lists of a run
_MOST_MEMORY = 2 << 30  # for some 400,000 packages of the wanted names
_ROOM = (
    "leave out channels that the packages do not need, or name a store on a disk with more room: --store DIR"
)
_HINT = "the channel is broken, or no channel; name another with `--channel URL`"


class RepodataEntry(Struct, frozen=True, kw_only=True):
    """A package of a channel.

    `sha256` and `md5` may be empty if the channel does not state them.
    """

    filename: FileName
    version: CondaName
    build: CondaName
    sha256: OptionalSha256 = ""
    md5: Hex = ""
    size: int = 0


class Repodata:
    """The package lists of channels, each fetched once.

    Together they take at most half of the free space.

    Args:
        net: the network client.
        folder: of this run, on a disk with room for them.
    """

    def __init__(self, net: Net, folder: Path) -> None:
        self._net, self._folder = net, folder
        self._allowance = min(_ALLOWANCE, shutil.disk_usage(folder).free // 2)
        self._files: dict[str, Path | None] = {}
        self._guard = threading.Lock()
        self._found: dict[tuple[str, str], tuple[RepodataEntry, ...]] = {}
        self._lost: dict[str, FetchError] = {}  # by channel; it is not queried again

    def load(self, channel: str, subdir: str, names: set[str]) -> None:
        """Look up packages, so that `of` knows them.

        Many at once cost as much as one.

        Raises:
            FetchError: the list is not available, or not valid.
        """
        with self._guard:
            if channel in self._lost:
                raise self._lost[channel]
            try:
                self._load(channel, subdir, names)
            except FetchError as err:
                self._lost[channel] = err
                raise

    def _load(self, channel: str, subdir: str, names: set[str]) -> None:
        url = f"{channel}/{subdir}"
        missing = sorted(name for name in names if (url, name) not in self._found)
        if not missing:
            return
        file, records = self._list_file(url), []
        if file is not None:
            job = {"file": str(file), "channel": channel, "subdir": subdir, "names": missing}
            try:
                answer = run_rattler(
                    {"find": job}, self._folder, f"read the packages of {url}", memory=_MOST_MEMORY
                )
                entries = decode_value(answer, list[dict[Key, Text | int]])
                records = [record for entry in entries if (record := _parse_entry(entry))]
            except (BuildError, msgspec.ValidationError) as err:
                raise FetchError(f"{url} is not a channel's list of packages: {err}", hint=_HINT) from None
        for name in missing:
            matches = [record for record in records if (split_filename(record.filename) or ("",))[0] == name]
            self._found[url, name] = tuple(sorted(matches, key=lambda record: record.filename))

    def fetch_list(self, channel: str, subdir: str) -> Path | None:
        """Return the file of a channel's list, or None if the channel lacks the subdir.

        Raises:
            FetchError: the list is not available.
        """
        with self._guard:
            return self._list_file(f"{channel}/{subdir}")

    def list_packages(self, channel: str, subdir: str, name: str) -> tuple[RepodataEntry, ...]:
        """Return the packages of one name in a channel.

        Raises:
            FetchError: the list is not available, or not valid.
        """
        self.load(channel, subdir, {name})
        return self._found[f"{channel}/{subdir}", name]

    def _list_file(self, url: str) -> Path | None:
        if url not in self._files:
            file = self._folder / str(len(self._files))
            packed = file.with_suffix(".zst")
            try:
                self._files[url] = self._fetch_list(url, file, packed)
            except FetchError:
                file.unlink(missing_ok=True)
                raise
            finally:
                packed.unlink(missing_ok=True)
        return self._files[url]

    def _fetch_list(self, url: str, file: Path, packed: Path) -> Path | None:
        """Fetch the list of a subdir; return None if missing."""
        with contextlib.suppress(NotFoundError):
            self._download(f"{url}/repodata.json.zst", packed)
            self._inflate(packed, file, url)
            return file
        try:
            self._download(f"{url}/repodata.json", file)
        except NotFoundError:
            return None
        return file

    def _download(self, url: str, part: Path) -> None:
        self._net.download(url, part, progress=lambda _: self._check_size(url, part.stat().st_size))

    def _inflate(self, packed: Path, file: Path, url: str) -> None:
        size, beside = 0, packed.stat().st_size
        try:
            with packed.open("rb") as source, file.open("wb") as target:
                reader = zstandard.ZstdDecompressor().stream_reader(source)
                while piece := reader.read(1 << 20):
                    size += len(piece)
                    self._check_size(f"{url}/repodata.json.zst", size, beside)
                    target.write(piece)
        except zstandard.ZstdError as err:
            raise FetchError(f"{url}/repodata.json.zst cannot be read: {err}", hint=_HINT) from None

    def _check_size(self, url: str, size: int, beside: int = 0) -> None:
        """Refuse a list that is too large, alone or with the lists so far and the packed file `beside` it."""
        if size > LARGEST:
            raise FetchError(f"{url} has no end", hint=_HINT)
        earlier = sum(file.stat().st_size for file in self._files.values() if file)
        if earlier + size + beside > self._allowance:
            raise FetchError(
                f"{url} does not fit: all lists of channels may have {self._allowance} bytes together",
                hint=_ROOM,
            )


def _parse_entry(entry: dict[str, str | int]) -> RepodataEntry | None:
    """Return a channel's package, or None if it is odd.

    An odd entry must not hide the others.
    """
    try:
        return decode_value(entry, RepodataEntry)
    except msgspec.ValidationError:
        return None
