"""Sources of single package versions.

They are the own store, Launchpad, the mirror's pool, and the user's files.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

import msgspec
from debian.deb822 import Deb822
from msgspec import Struct

from reprobuild.config.overrides import Decisions
from reprobuild.config.services import read_services
from reprobuild.ecosystems.apt.archives import ppas_of
from reprobuild.ecosystems.apt.deb import control_text
from reprobuild.ecosystems.apt.index import Candidate, PackagesFile, SystemIndex
from reprobuild.ecosystems.apt.launchpad import Launchpad
from reprobuild.ecosystems.apt.relations import NAME, VERSION
from reprobuild.errors import FetchError, LockError, ReproError
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.model import NotFoundError
from reprobuild.infra.untrusted.decode import decode_json
from reprobuild.infra.untrusted.regular_files import open_plain
from reprobuild.infra.untrusted.strings import Href, Line
from reprobuild.lock.system import Artefact, dpkg_name
from reprobuild.resolve.context import ResolveContext
from reprobuild.snapshot.model import Snapshot, SystemPackage
from reprobuild.store.fetch import fetch
from reprobuild.store.store import Store

_CHECK_DEB = "check the path that `--deb` gives"

_LARGEST = 4 << 30  # bytes of a package without a known size


class FoundVersion(Struct, frozen=True, kw_only=True):
    """The source of a captured version.

    `vouched` is False if the file is in no signed index and has no publisher's hash.

    An empty label means this machine's own sources.
    """

    label: Line
    vouched: bool = True


Answer = tuple[PackagesFile, FoundVersion]


class PackageSource(Protocol):
    """One source; `before_past` means before the dated archives."""

    label: str
    before_past: bool

    def find(self, package: SystemPackage, mirror: SystemIndex) -> Answer | None:
        """Return an index entry for the captured version, or None.

        Raises:
            FetchError: the source cannot be reached.
        """
        ...


class _Kept(Struct, frozen=True):
    uri: Href
    stanza: bytes
    found: FoundVersion


def list_further_archives(snapshot: Snapshot, decisions: Decisions, context: ResolveContext) -> list[str]:
    """Return what decides the archives of a lock, beside its release and this machine's apt."""
    archives = [*ppas_of(snapshot.apt_lists), *decisions.archives]
    usual = read_services()
    services = [
        f"{name} {service.url}" for name, service in context.services.items() if service != usual.get(name)
    ]
    return [*(msgspec.json.encode(archive).decode() for archive in archives), *services]


class StoreSource:
    """Packages pinned by earlier locks with the same archives, if the store has the files.

    Another lock's archives do not count: a foreign snapshot names its own PPA, which must not provide the packages of
    the user's next lock. Files that a user gave are not remembered, either.
    """

    label = "the own store"
    before_past = True

    def __init__(self, store: Store, distribution: str, release: str, archives: Iterable[str] = ()) -> None:
        """Open the memory of a release; `archives` are those beside its own, with their keys."""
        self._store = store
        scope = hashlib.sha256("\n".join(sorted(archives)).encode()).hexdigest()[:32]
        self._folder = store.root / "packages" / f"{distribution}-{release}-{scope}"
        self._known: dict[tuple[str, str, str], _Kept] | None = None

    def find(self, package: SystemPackage, mirror: SystemIndex) -> Answer | None:
        """Find a version as in `Shelf.find`.

        The first source of a version counts, so that a lock is the same the second time.
        """
        if self._known is None:
            self._known = {key: entry for path in self._files() for key, entry in self._read(path)}
        entry = self._known.get((package.name, package.version, package.architecture))
        if entry is None or not self._store.has(
            Deb822(entry.stanza.decode(errors="replace").splitlines()).get("SHA256", "")
        ):
            return None
        return PackagesFile(uri=entry.uri, content=entry.stanza, automatic=False), entry.found

    def keep(
        self,
        candidates: Iterable[Candidate],
        index: SystemIndex,
        sources: Mapping[tuple[str, str, str], FoundVersion],
    ) -> None:
        """Remember the chosen packages' index entries and sources."""
        entries = [
            _Kept(
                uri,
                stanza,
                sources.get(
                    (candidate.name, candidate.version, candidate.architecture), FoundVersion(label="")
                ),
            )
            for candidate in candidates
            for uri, stanza in index.find_stanza(candidate)
        ]
        entries = [entry for entry in entries if entry.found.label != LocalDebs.label]
        content = msgspec.json.encode(entries)
        path = self._folder / f"{hashlib.sha256(content).hexdigest()}.json"
        if self._store.signed(path) is None:
            self._store.keep_signed(path, content)

    def _files(self) -> list[Path]:
        with contextlib.suppress(OSError):
            return sorted(path for path in self._folder.iterdir() if path.suffix == ".json")
        return []

    def _read(self, path: Path) -> list[tuple[tuple[str, str, str], _Kept]]:
        try:
            entries = decode_json(self._store.signed(path) or b"[]", list[_Kept])
        except msgspec.DecodeError:
            return []
        read = [(_parse_fields(entry.stanza), entry) for entry in entries]
        return [
            ((fields.get("Package", ""), fields.get("Version", ""), fields.get("Architecture", "")), entry)
            for fields, entry in read
        ]


def _parse_fields(text: bytes) -> Deb822:
    """Return the fields of a paragraph in any encoding."""
    return Deb822(text.decode(errors="replace").splitlines())


class LaunchpadSource:
    """All publications of Ubuntu or the named PPAs.

    They are found by name and version.
    """

    label = "Launchpad"
    before_past = False

    def __init__(
        self, service: Launchpad, codename: str, ppas: Iterable[str], net: Net, store: Store
    ) -> None:
        self._service, self._codename = service, codename
        self._archives = ("", *ppas)
        self._net, self._store = net, store
        self._trouble: FetchError | None = None

    def find(self, package: SystemPackage, mirror: SystemIndex) -> Answer | None:
        """Find a version as in `Shelf.find`.

        The file is fetched, because its needs are only in the file.
        """
        if self._trouble:
            raise self._trouble
        machine = mirror.architecture if package.architecture == "all" else package.architecture
        for ppa in self._archives:
            try:
                files = self._service.published(package.name, package.version, machine, self._codename, ppa)
            except NotFoundError:
                continue
            except FetchError as err:
                self._trouble = err  # tried once, not again for each package
                raise
            for file in files:
                fetch([file], self._store, self._net)
                entry = make_index_entry(self._store.verified(file.sha256, file.filename), file, package)
                if entry is not None:
                    return entry, FoundVersion(label=self.label)
        return None


class MirrorPool:
    """Files in the mirror's pool that no index names.

    They are found by the file name of a version.
    """

    label = "the mirror's pool"
    before_past = False

    def __init__(self, net: Net, store: Store) -> None:
        self._net, self._store = net, store

    def find(self, package: SystemPackage, mirror: SystemIndex) -> Answer | None:
        """Find a version as in `Shelf.find`."""
        others = mirror.versions(dpkg_name(package.name, package.architecture, mirror.architecture))
        if not others:
            return None
        version = package.version.partition(":")[2] or package.version  # file names have no epoch
        filename = f"{package.name}_{version}_{package.architecture}.deb"
        url = f"{others[0].file.url.rpartition('/')[0]}/{filename}"
        with self._store.scratch() as scratch:
            part = scratch / "deb"
            try:
                sha256 = self._net.download(url, part)
            except NotFoundError:
                return None
            size = part.stat().st_size
            if size > _LARGEST:
                return None
            self._store.adopt(part, sha256)
        file = Artefact(filename=filename, sha256=sha256, size=size, url=url)
        entry = make_index_entry(self._store.verified(sha256, filename), file, package)
        return None if entry is None else (entry, FoundVersion(label=self.label, vouched=False))


class LocalDebs:
    """Files that the user gives."""

    label = "the user's files"
    before_past = False

    def __init__(self, paths: Iterable[Path], store: Store) -> None:
        self._paths, self._store = tuple(paths), store

    def find(self, package: SystemPackage, mirror: SystemIndex) -> Answer | None:
        """Find a version as in `Shelf.find`.

        Raises:
            LockError: a given file cannot be read.
        """
        for path in self._paths:
            if not path.name.startswith(f"{package.name}_"):
                continue
            try:
                sha256, size = self._taken(path)
            except OSError as err:
                raise LockError(f"{path} cannot be read: {err.strerror}", hint=_CHECK_DEB) from None
            file = Artefact(filename=path.name, sha256=sha256, size=size)
            entry = make_index_entry(self._store.verified(sha256, path.name), file, package)
            if entry is not None:
                return entry, FoundVersion(label=self.label)
        return None

    def _taken(self, path: Path) -> tuple[str, int]:
        """Copy a file into the store in pieces.

        Return its hash and size.
        """
        with self._store.scratch() as folder, open_plain(path, links=True)[0] as stream:
            copy = folder / "deb"
            with copy.open("wb") as target:
                shutil.copyfileobj(stream, target)
            size = copy.stat().st_size
            return self._store.adopt(copy), size


def make_index_entry(path: Path, file: Artefact, package: SystemPackage) -> PackagesFile | None:
    """Return an index entry for a package's file.

    Return None if it is not the captured package.

    Args:
        path: the file.
        file: its known facts; without an address only the store has it.
        package: the expected package.
    """
    try:
        text = control_text(path, file.filename)
    except ReproError:
        return None
    fields = _parse_fields(text)
    identity = (fields.get("Package", ""), fields.get("Version", ""), fields.get("Architecture", ""))
    if identity != (package.name, package.version, package.architecture):
        return None
    if not NAME.fullmatch(identity[0]) or not VERSION.fullmatch(identity[1]):
        return None
    for field in ("Filename", "SHA256", "Size"):
        fields.pop(field, None)
    uri, _, name = file.url.rpartition("/")
    stanza = f"{fields.dump()}Filename: {name or file.filename}\nSHA256: {file.sha256}\nSize: {file.size}\n"
    return PackagesFile(uri=f"{uri}/" if file.url else "", content=stanza.encode(), automatic=False)


def list_user_debs(places: Iterable[str], folder: Path) -> tuple[Path, ...]:
    """Return the `.deb` files of the decision `debs`.

    Its values are files, or directories of them, relative to `folder`.

    Raises:
        LockError: a path does not exist. Whether it would have been needed is not known yet.
    """
    paths: list[Path] = []
    for place in places:
        path = folder / place
        if not path.exists():
            raise LockError(f"{path} cannot be read: No such file or directory", hint=_CHECK_DEB)
        paths += sorted(path.glob("*.deb")) if path.is_dir() else [path]
    return tuple(paths)
