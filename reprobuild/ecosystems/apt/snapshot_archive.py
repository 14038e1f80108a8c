"""Signed package indexes of archives, present or past.

https://wiki.debian.org/DebianRepository/Format. Indexes are kept in the store. An expired index is accepted
here, because a past one is requested. Its signed text has its date.
"""

from __future__ import annotations

import hashlib
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime

from debian.deb822 import Deb822
from msgspec import Struct

from reprobuild.ecosystems.apt.archives import AptArchive
from reprobuild.ecosystems.apt.index import PackagesFile, without_credentials
from reprobuild.ecosystems.apt.signatures import AptKeyring
from reprobuild.errors import FetchError
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.model import NotFoundError
from reprobuild.infra.untrusted.regular_files import read_plain
from reprobuild.lock.system import Artefact
from reprobuild.store.fetch import fetch
from reprobuild.store.store import Store

_ENTRY = re.compile(r" *([0-9a-f]{64}) +([0-9]{1,12}) +(\S+)")
_LONGEST_SIGNED = 16 << 20  # bytes of an InRelease; Ubuntu's have some 300 000
_LARGEST = 1 << 30  # bytes of an unpacked index; the largest of Debian has some 60 million
_PACKED = (".xz", ".gz", "")
_DAY = 86400
_DAMAGED = "it is damaged or made to harm: try again, or name another address with `--service`"


class SignedRelease(Struct, frozen=True, kw_only=True):
    """The contents of a signed `InRelease`.

    `date` is in seconds since 1970; `files` are sha256 and size by path.
    """

    date: int
    names: tuple[str, ...]
    files: dict[str, tuple[str, int]]


class ListedPackagesFile(Struct, frozen=True, kw_only=True):
    """A `Packages` file in a signed text, maybe compressed.

    `packed` is its suffix. Addresses may hold credentials.
    """

    uri: str
    address: str
    sha256: str
    size: int
    packed: str
    plain_sha256: str
    plain_size: int
    automatic: bool
    architecture: str


class ArchiveIndexes:
    """The indexes of archives.

    Args:
        net: the network client.
        store: keeps them by sha256, and remembers the `InRelease` of a past moment.
        keyring: returns the keys of an archive.
        architectures: in Debian's words, the image's own first.
    """

    def __init__(
        self,
        net: Net,
        store: Store,
        keyring: Callable[[AptArchive], AptKeyring],
        architectures: tuple[str, ...],
    ) -> None:
        self._net, self._store = net, store
        self._keyring = keyring
        self._keyrings: dict[str, AptKeyring] = {}
        self._architectures = architectures

    def open_at(self, archive: AptArchive, time: int | None = None) -> tuple[ListedPackagesFile, ...]:
        """Return the indexes of an archive.

        Args:
            archive: the archive.
            time: seconds since 1970; None for an archive without a past.

        Raises:
            NotFoundError: it has none of its suites at that time.
            FetchError: it cannot be reached, or its answer is not signed, damaged, or of another suite.
        """
        url = archive.url.replace("{time}", format_identifier(time)) if time is not None else archive.url
        releases = [
            (pocket, release)
            for pocket in (*archive.pockets, *archive.unasked)
            if (release := self._release(archive, url, pocket, time)) is not None
        ]
        if not releases:
            raise NotFoundError(
                f"{without_credentials(url)} has none of {', '.join(archive.pockets)}",
                hint="it did not exist then, or is not the archive of that release",
            )
        return tuple(
            index
            for pocket, release in releases
            for index in self._list_pocket(archive, url, pocket, release)
        )

    def read(self, index: ListedPackagesFile) -> PackagesFile:
        """Return an index, fetched and checked if it is missing.

        The store keeps it.

        Raises:
            FetchError: it is not available, or differs from the signed one.
        """
        where = without_credentials(index.address)
        if not self._store.has(index.sha256):
            name = index.address.rpartition("/")[2]
            file = Artefact(filename=name, sha256=index.sha256, size=index.size, url=index.address)
            fetch([file], self._store, self._net)
        data = read_plain(self._store.verified(index.sha256, where), _LARGEST)
        content = unpack_index(data, index.packed, index.plain_size, where)
        if index.plain_sha256 and hashlib.sha256(content).hexdigest() != index.plain_sha256:
            raise FetchError(f"{where} unpacks to something else than its signed index says", hint=_DAMAGED)
        return PackagesFile(uri=without_credentials(index.uri), content=content, automatic=index.automatic)

    def _release(self, archive: AptArchive, url: str, pocket: str, time: int | None) -> SignedRelease | None:
        """Return the signed text of a suite, or None.

        None means that there is no such suite.
        """
        address = f"{url}dists/{pocket}/InRelease"
        key = hashlib.sha256(f"signed\0{address}".encode()).hexdigest()
        known = self._store.recall(key) if time is not None else None  # the past does not change
        if isinstance(known, str) and self._store.has(known):
            content = read_plain(self._store.verified(known, without_credentials(address)), _LONGEST_SIGNED)
        else:
            try:
                content = self._net.page(address, most=_LONGEST_SIGNED).content
            except NotFoundError:
                return None
        where = without_credentials(address)
        if archive.url not in self._keyrings:
            self._keyrings[archive.url] = self._keyring(archive)
        release = read_release(self._keyrings[archive.url].open(content, where), where)
        if pocket.partition("/")[0] not in release.names:  # Debian's `buster/updates` is named buster
            raise FetchError(
                f"{where} is signed, and of another suite: {', '.join(release.names) or 'it does not say which'}",
                hint="name the right address of that archive with `--service`",
            )
        if time is not None:
            if release.date > time + _DAY:
                raise FetchError(
                    f"{where} is of {format_instant(release.date)}, which is later than asked for",
                    hint=_DAMAGED,
                )
            self._store.remember(key, self._store.add(content))
        return release

    def _list_pocket(
        self, archive: AptArchive, url: str, pocket: str, release: SignedRelease
    ) -> Iterator[ListedPackagesFile]:
        for component in archive.components:
            for architecture in self._architectures:
                path = f"{component}/binary-{architecture}/Packages"
                packed = next((suffix for suffix in _PACKED if path + suffix in release.files), None)
                plain = release.files.get(path, ("", _LARGEST))
                if packed is not None and plain[1]:
                    sha256, size = release.files[path + packed]
                    yield ListedPackagesFile(
                        uri=url, address=f"{url}dists/{pocket}/{path}{packed}", sha256=sha256, size=size, packed=packed,
                        plain_sha256=plain[0], plain_size=plain[1], automatic=pocket not in archive.unasked,
                        architecture=architecture,
                    )  # fmt: skip


def read_release(text: bytes, where: str) -> SignedRelease:
    """Return the contents of a suite's signed text.

    Raises:
        FetchError: it is not such a text.
    """
    fields = Deb822(text.decode(errors="replace").splitlines())
    try:
        date = int(parsedate_to_datetime(fields.get("Date", "")).replace(tzinfo=timezone.utc).timestamp())
    except (TypeError, ValueError, OverflowError):
        raise FetchError(f"{where} tells no date: {fields.get('Date', '')[:60]!r}", hint=_DAMAGED) from None
    entries = [m for line in fields.get("SHA256", "").splitlines() if (m := _ENTRY.fullmatch(line))]
    return SignedRelease(
        date=date,
        names=_suite_names(fields.get("Suite", ""), fields.get("Codename", "")),
        files={entry[3]: (entry[1], int(entry[2])) for entry in entries},
    )


def _suite_names(suite: str, codename: str) -> tuple[str, ...]:
    """Return the names of a suite.

    Ubuntu's pockets have one code name, so only their suite distinguishes them.
    """
    if suite.startswith(f"{codename}-"):
        return (suite,)
    return tuple(dict.fromkeys(name for name in (suite, codename) if name))


def unpack_index(data: bytes, packed: str, size: int, where: str) -> bytes:
    """Return an index unpacked, of at most `size` bytes.

    Raises:
        FetchError: it is damaged, or larger.
    """
    most = min(size, _LARGEST)
    try:
        if packed == ".xz":
            plain = lzma.LZMADecompressor(memlimit=256 << 20).decompress(data, most + 1)
        elif packed == ".gz":
            plain = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(data, most + 1)
        else:
            plain = data
    except (lzma.LZMAError, zlib.error, EOFError) as err:
        raise FetchError(f"{where} cannot be unpacked: {err}", hint=_DAMAGED) from None
    if len(plain) > most:
        raise FetchError(f"{where} unpacks to more than {most} bytes", hint=_DAMAGED)
    return plain


def format_identifier(time: int) -> str:
    """Return a moment in the dated archives' form: `20240301T030400Z`."""
    return datetime.fromtimestamp(time, timezone.utc).strftime("%Y%m%dT%H%M%SZ")


def format_instant(time: int) -> str:
    """Return a moment as text for people."""
    return datetime.fromtimestamp(time, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
