"""The packages of a lock's base.

Captured versions are found wherever they are still available.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct, structs

from reprobuild.config.overrides import Decisions
from reprobuild.config.services import Service
from reprobuild.ecosystems.apt.apt_config import configured_index
from reprobuild.ecosystems.apt.archives import AptArchive, archives_of, ppas_of, present_archives
from reprobuild.ecosystems.apt.first_seen import FirstSeen
from reprobuild.ecosystems.apt.index import SystemIndex
from reprobuild.ecosystems.apt.launchpad import Launchpad
from reprobuild.ecosystems.apt.signatures import AptKeyring
from reprobuild.ecosystems.apt.snapshot_archive import ArchiveIndexes
from reprobuild.errors import LockError
from reprobuild.infra.http.client import Net
from reprobuild.lock.model import Resolution
from reprobuild.lock.system import Base, Deb, dpkg_name
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.system.apt_update_time import RESOLUTION
from reprobuild.resolve.system.contradiction import ContradictionError
from reprobuild.resolve.system.fallback_sources import (
    LaunchpadSource,
    LocalDebs,
    MirrorPool,
    PackageSource,
    StoreSource,
    list_further_archives,
    list_user_debs,
)
from reprobuild.resolve.system.missing_list import APT_LIST
from reprobuild.resolve.system.packages import foreign_architectures, resolve_base
from reprobuild.resolve.system.release import DistributionRelease
from reprobuild.resolve.system.snapshot_archives import CurrentArchives, Past
from reprobuild.resolve.system.version_search import Search, describe_moment
from reprobuild.snapshot.model import AptList, RpmPackage, Snapshot, SystemPackage

# Classes of resolutions that a package from elsewhere would change.
_NOTHING: Mapping[str, str] = MappingProxyType({})
_MISSING = ("withdrawn", "unknown-version", "unknown-package", "local-build")


class BaseRequest(Struct, frozen=True, kw_only=True):
    """The input of a base: release, architecture, and required packages.

    The packages are those that the rest of the lock needs.
    """

    release: DistributionRelease
    architecture: str
    roots: tuple[str, ...]


class ReleaseBase:
    """The packages of a release, with a search for captured versions.

    The release's mirror may no longer have them.

    If the machine's apt has no source for the release, or if it has no apt, they come from the dated archives; if no
    dated archive answers, from the release's current archives.

    Raises:
        LockError: neither has the release, or a decision is wrong.
        FetchError: apt cannot fetch its lists.
    """

    def __init__(
        self, snapshot: Snapshot, request: BaseRequest, decisions: Decisions, context: ResolveContext
    ) -> None:
        release = request.release
        self._snapshot, self._wanted, self._drop = snapshot, request, decisions.drop
        self._only_needed = decisions.system != "all"
        self.roots = request.roots
        archives = list_further_archives(snapshot, decisions, context)
        self._own = StoreSource(context.store, release.distribution, release.codename, archives)
        foreign = foreign_architectures(snapshot.packages, request.architecture, decisions.drop)
        lost: LockError | None = None
        try:
            with context.store.private_directory("apt", "lists") as lists:
                self.index = configured_index(
                    release.distribution, release.codename, env=context.env, folder=lists,
                    architecture=request.architecture, foreign=foreign, offline=context.net.offline,
                )  # fmt: skip
            self._search = make_search(snapshot, self.index, self._own, decisions, context)
        except LockError as err:
            lost = err
        if lost:  # outside of the handler: a failure of the archives is no consequence of this one
            context.say(f"system: {lost}; asking the archives that are known for the release")
            empty = SystemIndex(release.distribution, release.codename, (), request.architecture)
            self._search = make_search(snapshot, empty, self._own, decisions, context)
            whole = self._search.begin(empty) or self._search.now(empty)
            if whole is None:
                raise _no_archive_error(lost, release, self._search)
            self.index = whole

    def has(self, name: str) -> bool:
        """Return whether the release has a package of a name."""
        return bool(self.index.versions(name))

    def distributions(self, minor: str) -> Mapping[str, str]:
        """Return an empty mapping.

        A base of packages has the distributions of its packages only.
        """
        return {}

    def pin(
        self, libraries: Mapping[str, str] = _NOTHING, called: Mapping[str, str] = _NOTHING
    ) -> tuple[Base, tuple[Resolution, ...]]:
        """Choose the packages of the base, and find the captured versions.

        Args:
            libraries: packages that wheels need, each with the asking package.
            called: captured packages with called programs, each with its caller; `system: all` ignores it.

        Raises:
            LockError: a required package is unavailable.
        """
        base, rulings, self.index = find_base(
            self._snapshot.packages, self.index, self._search, roots=self.roots, drop=self._drop,
            chosen_for=self._wanted.release.evidence, libraries=libraries,
            called=called if self._only_needed else None, rpms=self._snapshot.rpms,
        )  # fmt: skip
        debs, index = (*base.packages, *base.tools), self.index
        self._own.keep(
            [c for d in debs for c in index.versions(_deb_key(d, index)) if c.version == d.version],
            index,
            self._search.found,
        )
        return base, (*rulings, *_release_evidence(self._snapshot, self._wanted.release, self._search))


def find_base(
    packages: tuple[SystemPackage, ...], index: SystemIndex, search: Search, *, roots: Iterable[str],
    drop: Collection[str] = (), chosen_for: str = "", libraries: Mapping[str, str] = _NOTHING,
    called: Mapping[str, str] | None = None, rpms: Sequence[RpmPackage] = (),
) -> tuple[Base, tuple[Resolution, ...], SystemIndex]:  # fmt: skip
    """Resolve the base, and search for packages that the index lacks.

    The search goes on until all sources are tried.

    Returns:
        The base, the resolutions with the source of each version, and the index with all found packages.
    """
    base, rulings, index = resolve_with_search(
        lambda known: resolve_base(
            packages, index=known, roots=roots, drop=drop, chosen_for=chosen_for, libraries=libraries,
            called=called, rpms=rpms,
        ),
        lambda rulings: find_missing_packages(packages, rulings), packages, index, search,
    )  # fmt: skip
    return base, tuple(with_version_source(ruling, search) for ruling in rulings), index


def resolve_with_search(
    resolve: Callable[[SystemIndex], tuple[Base, tuple[Resolution, ...]]],
    lacking: Callable[[tuple[Resolution, ...]], Sequence[SystemPackage]],
    packages: Iterable[SystemPackage],
    index: SystemIndex,
    search: Search,
) -> tuple[Base, tuple[Resolution, ...], SystemIndex]:
    """Resolve with more and more packages, until all are searched.

    Args:
        resolve: chooses the packages of an index.
        lacking: returns the captured packages to search for, by the resolutions.
        packages: the captured list.
        index: the first index.
        search: looks for packages.

    Raises:
        LockError: no system is possible with all found packages.
    """
    while True:
        try:
            base, rulings = resolve(index)
        except ContradictionError as err:
            index = _with_missing_versions(packages, index, search, err)
            continue
        more = search.extend_index(lacking(rulings), index)
        if more is None:
            return base, rulings, index
        index = more


def _with_missing_versions(
    packages: Iterable[SystemPackage], index: SystemIndex, search: Search, err: ContradictionError
) -> SystemIndex:
    """Return the index with missing captured versions.

    Packages of a contradiction are searched first, then all.

    Raises:
        ContradictionError: all sources were tried.
    """
    lost = [package for package in packages if package.mark != "residual" and not _is_in(index, package)]
    about = [package for package in lost if package.name in err.names]
    more = search.extend_index(about, index) or search.extend_index(lost, index)
    if more is None:
        raise err
    return more


def _no_archive_error(lost: LockError, release: DistributionRelease, search: Search) -> LockError:
    """Return the error if neither this machine's apt nor an archive has the release."""
    silent = "".join(f"\n  {url}: {reason}" for url, reason in sorted(search.silent.items()))
    name = f"{release.distribution}/{release.codename}"
    mirror = f"--service {release.distribution}-archive=URL"
    return LockError(
        f"{lost}, and no archive that is known for {name} answers:{silent}",
        hint=f"name a mirror of it with {mirror}; or lock on a Debian or Ubuntu machine, or in a container of one",
    )


def _is_in(index: SystemIndex, package: SystemPackage) -> bool:
    key = dpkg_name(package.name, package.architecture, index.architecture)
    return any(candidate.version == package.version for candidate in index.versions(key))


def make_search(
    snapshot: Snapshot,
    index: SystemIndex,
    store_source: StoreSource,
    decisions: Decisions,
    context: ResolveContext,
) -> Search:
    """Return the search for packages that the mirror lacks."""
    services = context.services
    by_url = {archive.url: archive for archive in (*ppas_of(snapshot.apt_lists), *decisions.archives)}
    archives = archives_of(index.distribution, index.release, services, by_url.values())
    launchpad = Launchpad(services["launchpad"].url, context.net)
    keys = _Keys(services, launchpad, context.net, context.key_folders)
    foreign = foreign_architectures(snapshot.packages, index.architecture, decisions.drop)
    indexes = ArchiveIndexes(context.net, context.store, keys.keyring_of, (index.architecture, *foreign))
    dated = tuple(archive for archive in archives if archive.dated)
    present = [archive for archive in archives if not archive.dated]
    if not index.essential:  # this machine's apt has no source for the release
        present += present_archives(index.distribution, index.release, services, index.architecture)
    names = {package.name for package in snapshot.packages}
    shelves: list[PackageSource] = [store_source]
    if index.distribution == "ubuntu":
        ppas = [archive.ppa for archive in archives if archive.ppa]
        shelves.append(LaunchpadSource(launchpad, index.release, ppas, context.net, context.store))
    shelves.append(MirrorPool(context.net, context.store))
    shelves.append(LocalDebs(list_user_debs(decisions.debs, context.folder), context.store))
    first_seen = FirstSeen(services["debian-first-seen"].url, context.net)
    return Search(
        snapshot.packages, index, Past(dated, indexes, names) if dated else None, shelves, now=context.now,
        hints=_moment_hints(snapshot.apt_lists), say=context.say,
        first_seen=first_seen.list_times if index.distribution == "debian" else None,
        present=CurrentArchives(present, indexes),
    )  # fmt: skip


def _moment_hints(lists: Iterable[AptList]) -> list[int]:
    """Return the publication moment of the machine's newest apt list.

    The machine is the captured one.
    """
    times = [time for apt_list in lists for time in (apt_list.date, apt_list.fetched) if time is not None]
    return [max(times) + RESOLUTION] if times else []


def _deb_key(deb: Deb, index: SystemIndex) -> str:
    return dpkg_name(deb.name, deb.architecture, index.architecture)


class _Keys:
    """The keyring of each archive.

    It is pinned, or for a PPA the one that Launchpad names.
    """

    def __init__(
        self, services: Mapping[str, Service], launchpad: Launchpad, net: Net, folders: Iterable[Path]
    ) -> None:
        self._server = services["keyserver"].url
        self._launchpad, self._net, self._folders = launchpad, net, tuple(folders)

    def keyring_of(self, archive: AptArchive) -> AptKeyring:
        """Return the keyring of an archive.

        Raises:
            FetchError: a PPA's key cannot be fetched.
        """
        keys = archive.keys or ((self._launchpad.fingerprint(archive.ppa),) if archive.ppa else ())
        return AptKeyring(keys, self._folders, self._fetch)

    def _fetch(self, fingerprint: str) -> bytes:
        return self._net.page(self._server.replace("{fingerprint}", fingerprint.upper())).content


def find_missing_packages(
    packages: Sequence[SystemPackage], rulings: Iterable[Resolution]
) -> list[SystemPackage]:
    """Return packages with a captured version missing from the index.

    Another archive may have it.
    """
    lines = {ruling.line for ruling in rulings if ruling.kind in _MISSING}
    return [package for package in packages if package.place.line in lines]


def with_version_source(ruling: Resolution, search: Search) -> Resolution:
    """Return a resolution with the source of its version.

    If the version was not found, the searched places are added.
    """
    package = search.find_line(ruling.line)
    if package is None:
        return ruling
    source = search.found.get((package.name, package.version, package.architecture))
    if ruling.outcome == "pinned" and source is not None and not source.vouched:
        reason = f"{ruling.reason}; the file is from {source.label}, and no signed index names it"
        return structs.replace(ruling, outcome="replaced", kind="unsigned-file", reason=reason)
    if ruling.outcome == "pinned" and source is not None:
        return structs.replace(ruling, reason=f"{ruling.reason}; from {source.label}")
    looked = search.looked.get((package.name, package.architecture))
    if ruling.kind in _MISSING and looked:
        return structs.replace(ruling, reason=f"{ruling.reason}; looked for in: {', '.join(looked)}")
    return ruling


def _release_evidence(
    snapshot: Snapshot, release: DistributionRelease, search: Search
) -> tuple[Resolution, ...]:
    """Return the evidence for the release and the moment."""
    if not snapshot.packages:
        return ()
    words = [f"{release.distribution}/{release.codename}: {release.evidence}"]
    if search.moment is not None:
        words.append(describe_moment(search.moment))
    words += [f"the archive {url} did not answer: {reason}" for url, reason in sorted(search.silent.items())]
    return (
        Resolution(
            file=APT_LIST, line=0, subject=APT_LIST, outcome="in base", reason="; ".join(words), kind="release",
        ),
    )  # fmt: skip
