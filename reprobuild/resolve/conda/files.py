"""Files of conda's packages.

A line of conda's lists leads to a file: its name, its hash, and its address for this machine.
"""

from __future__ import annotations

import contextlib
import hashlib
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from reprobuild.ecosystems.conda.channels import Channel, ChannelResolver
from reprobuild.ecosystems.conda.package import split_filename
from reprobuild.ecosystems.conda.repodata import Repodata, RepodataEntry
from reprobuild.errors import FetchError
from reprobuild.infra.display import escape_text
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.model import NotFoundError, UnreachedError
from reprobuild.lock.system import Artefact
from reprobuild.resolve.conda.alternatives import KeptCondaPackages, describe_near_packages, read_identity
from reprobuild.snapshot.model import CapturedCondaPackage
from reprobuild.store.store import CHUNK, Store

SUBDIRS = {"linux/amd64": "linux-64", "linux/arm64": "linux-aarch64"}


class Chosen(Struct, frozen=True, kw_only=True):
    """The file of one package, its channel, and the evidence."""

    file: Artefact
    channel: str
    subdir: str
    reason: str


class CondaRefusedError(Exception):
    """A package is unavailable as captured.

    `kind` is its name for `accept`.
    """

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


class CondaFiles:
    """A finder of package files.

    Args:
        meaning: the addresses of channel names here.
        platform: of the image.
        repodata: the lists of channels.
        net: downloads files with a hash that only they themselves have.
        store: receives those files.
    """

    def __init__(
        self, meaning: ChannelResolver, platform: str, repodata: Repodata, net: Net, store: Store
    ) -> None:
        self._meaning, self._repodata, self._net, self._store = meaning, repodata, net, store
        self._subdirs = (SUBDIRS[platform], "noarch")
        self._earlier = KeptCondaPackages(store)
        self._unreached: dict[str, UnreachedError] = {}  # by scheme and host

    def prepare(self, packages: Iterable[CapturedCondaPackage]) -> None:
        """Look up all packages in their channels' lists.

        Each list of a channel is read once.

        A channel without a list is an error of each package that `find` looks for there.
        """
        lookups: dict[tuple[str, str], set[str]] = {}
        for package in packages:
            if not _is_proven(package):
                for place in self._places(package):
                    for subdir in self._subdirs:
                        lookups.setdefault((place.url, subdir), set()).add(package.name)
        for (url, subdir), names in lookups.items():
            try:
                self._repodata.load(url, subdir, names)
            except UnreachedError as err:
                self._unreached.setdefault(_host(url), err)
            except FetchError:
                continue

    def find(self, package: CapturedCondaPackage) -> Chosen:
        """Return the file of a package.

        Raises:
            CondaRefusedError: it is unavailable, or is not the captured one.
            FetchError: a channel does not answer.
        """
        if package.url and _filename(package.url) is None:
            raise CondaRefusedError("conda-package", f"its address names no package: {package.url}")
        folders = self._meaning.withheld(package.channel, package.among or ())
        if folders and not self._places(package):
            raise CondaRefusedError("conda-package", _describe_unread_channels(folders))
        try:
            return self._find_by_address(package) if _is_proven(package) else self._find_listed(package)
        except CondaRefusedError as err:
            raise CondaRefusedError(
                err.kind, f"{err}; {_describe_unread_channels(folders)}" if folders else str(err)
            ) from None

    def _places(self, package: CapturedCondaPackage) -> list[Channel]:
        return self._meaning.list_channels(package.channel, package.among or ())

    def _find_by_address(self, package: CapturedCondaPackage) -> Chosen:
        """Return the file of a line with address and hash.

        No list of a channel is needed.
        """
        filename, subdir = _filename(package.url or "") or "", self._subdir(package.url or "")
        places = self._places(package)
        for place in places:
            url = f"{place.url}/{subdir}/{filename}"
            try:
                file = self._fetch_file(filename, url, package)
            except NotFoundError:
                continue
            return Chosen(file=file, channel=place.name, subdir=subdir, reason=f"{filename} from {place.url}")
        problem = f"{filename} is gone from {_join_addresses(places)}"
        raise CondaRefusedError(
            "conda-package", problem + describe_near_packages(package, self._named(package, places))
        )

    def _find_listed(self, package: CapturedCondaPackage) -> Chosen:
        """Return the file for an incomplete line, from channel lists."""
        places = self._places(package)
        matches, others = self._search(package, places)
        if not matches:
            more = self._meaning.otherwise(package.channel, package.among or ())
            matches, also = self._search(package, more)
            places, others = [*places, *more], [*others, *also]
        if not matches:
            raise CondaRefusedError(
                "conda-package", _describe_missing(package, places, others) + self._earlier(package, places)
            )
        builds = sorted({entry.build for _, _, entry in matches})
        if len(builds) > 1:
            raise CondaRefusedError(
                "conda-unbuilt",
                f"the list tells no build, and there are {len(builds)}: {', '.join(builds[:5])}",
            )
        place, subdir, best = matches[0]
        best = next(
            (entry for at, _, entry in matches if at == place and entry.filename.endswith(".conda")), best
        )
        for other, _, entry in matches:
            if entry.filename == best.filename and _differ(entry, best):
                raise CondaRefusedError(
                    "conda-ambiguous",
                    f"{best.filename} has other bytes on {other.url} than on {place.url}; the list tells no channel",
                )
        self._compare(package, best, place)
        url = f"{place.url}/{subdir}/{best.filename}"
        reason = f"{best.filename} from {place.url}" + ("" if package.build else ", its only build there")
        try:
            file = self._lock_listed(package, best, url)
        except NotFoundError:
            rest = [entry for entry in self._named(package, places) if entry.filename != best.filename]
            problem = f"{place.url} lists {best.filename}, and has no such file"
            raise CondaRefusedError(
                "conda-package", problem + describe_near_packages(package, rest)
            ) from None
        return Chosen(file=file, channel=place.name, subdir=subdir, reason=reason)

    def _lock_listed(self, package: CapturedCondaPackage, entry: RepodataEntry, url: str) -> Artefact:
        """Return the file of an entry; its list's word counts only where the line has no hash."""
        if entry.sha256 and (package.sha256 or not package.md5):
            return Artefact(filename=entry.filename, sha256=entry.sha256, size=entry.size, url=url)
        # A list may state the captured md5 beside the sha256 of another file: only bytes prove an md5.
        file = self._fetch_file(entry.filename, url, package, entry.md5)
        if entry.sha256 and file.sha256 != entry.sha256:
            raise CondaRefusedError(
                "conda-changed",
                f"{url} is another file than its list states: sha256 {file.sha256}, not {entry.sha256}",
            )
        return file

    def _search(
        self, package: CapturedCondaPackage, places: Sequence[Channel]
    ) -> tuple[list[tuple[Channel, str, RepodataEntry]], list[RepodataEntry]]:
        """Return the matching files, and others of the same name."""
        matches: list[tuple[Channel, str, RepodataEntry]] = []
        others: list[RepodataEntry] = []
        for place in places:
            for subdir in self._subdirs:
                for entry in self._repodata.list_packages(place.url, subdir, package.name):
                    if _matches_entry(package, entry):
                        matches.append((place, subdir, entry))
                    else:
                        others.append(entry)
        return matches, others

    def _named(self, package: CapturedCondaPackage, places: Sequence[Channel]) -> list[RepodataEntry]:
        """Return all files of an unavailable package's name.

        A channel without a list is skipped.
        """
        entries: list[RepodataEntry] = []
        for place in places:
            for subdir in self._subdirs:
                with contextlib.suppress(FetchError):
                    entries += self._repodata.list_packages(place.url, subdir, read_identity(package)[0])
        return entries

    def _compare(self, package: CapturedCondaPackage, entry: RepodataEntry, place: Channel) -> None:
        for kind, captured, now in (
            ("md5", package.md5, entry.md5),
            ("sha256", package.sha256, entry.sha256),
        ):
            if captured and now and captured != now:
                raise CondaRefusedError(
                    "conda-changed",
                    f"{place.url} has another {entry.filename} now: {kind} {now}, not {captured}",
                )

    def _fetch_file(self, filename: str, url: str, package: CapturedCondaPackage, md5: str = "") -> Artefact:
        """Return a file by its hash.

        The hash is captured, remembered, or computed here once after a comparison with its md5.
        """
        if package.sha256:
            return self._fetch_by_sha256(filename, url, package.sha256)
        md5 = package.md5 or md5
        key = hashlib.sha256(f"conda\0{filename}\0{md5}".encode()).hexdigest()
        known = self._store.recall(key)
        if md5 and isinstance(known, str) and self._store.has(known):
            size = self._store.blob(known).stat().st_size
            return Artefact(filename=filename, sha256=known, size=size, url=url)
        with self._store.scratch() as scratch:
            part = scratch / "package"
            sha256 = self._download(url, part)
            size, part_md5 = part.stat().st_size, _file_md5(part)
            if md5 and part_md5 != md5:
                raise CondaRefusedError(
                    "conda-changed",
                    f"{url} is another file now: md5 {part_md5} ({size} bytes), captured as {md5}",
                )
            self._store.adopt(part, sha256)
        self._store.remember(key, sha256)
        return Artefact(filename=filename, sha256=sha256, size=size, url=url)

    def _fetch_by_sha256(self, filename: str, url: str, sha256: str) -> Artefact:
        if not self._store.has(sha256):
            with self._store.scratch() as scratch:
                part = scratch / "package"
                part_sha256 = self._download(url, part)
                if part_sha256 != sha256:
                    size = part.stat().st_size
                    raise CondaRefusedError(
                        "conda-changed",
                        f"{url} is another file now: sha256 {part_sha256} ({size} bytes), captured as {sha256}",
                    )
                self._store.adopt(part, part_sha256)
        size = self._store.blob(sha256).stat().st_size
        return Artefact(filename=filename, sha256=sha256, size=size, url=url)

    def _download(self, url: str, part: Path) -> str:
        """Download a file, unless its host was unreachable before."""
        host = _host(url)
        if host in self._unreached:
            raise self._unreached[host]
        try:
            return self._net.download(url, part)
        except UnreachedError as err:
            raise self._unreached.setdefault(host, err) from None

    def _subdir(self, url: str) -> str:
        subdir = url.rpartition("/")[0].rpartition("/")[2]
        if subdir not in self._subdirs:
            raise CondaRefusedError(
                "conda-platform", f"it is a package for {subdir}, and the image is {self._subdirs[0]}"
            )
        return subdir


def _host(url: str) -> str:
    return "/".join(url.split("/", 3)[:3])


def _is_proven(package: CapturedCondaPackage) -> bool:
    return bool(package.url and (package.md5 or package.sha256))


def _filename(url: str) -> str | None:
    name = url.rpartition("/")[2]
    return name if split_filename(name) else None


def _matches_entry(package: CapturedCondaPackage, entry: RepodataEntry) -> bool:
    if package.url:
        return entry.filename == _filename(package.url)
    return entry.version == package.version and package.build in (None, entry.build)


def _differ(first: RepodataEntry, second: RepodataEntry) -> bool:
    pairs = ((first.sha256, second.sha256), (first.md5, second.md5))
    return any(digest and other_digest and digest != other_digest for digest, other_digest in pairs)


def _join_addresses(places: Sequence[Channel]) -> str:
    return " and ".join(place.url for place in places)


def _describe_unread_channels(folders: Sequence[str]) -> str:
    """Describe the channels in unread directories, and their option."""
    named = " ".join(f"--channel {shlex.quote(escape_text(folder))}" for folder in folders)
    return f"a snapshot opens no directory of this machine as a channel; name it with {named}"


def _describe_missing(
    package: CapturedCondaPackage, places: Sequence[Channel], others: Sequence[RepodataEntry]
) -> str:
    spec = f"{package.name} {package.version}" + (f" {package.build}" if package.build else "")
    return f"{_join_addresses(places)} has no {spec}{describe_near_packages(package, others)}"


def _file_md5(path: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
