"""From an `apt list` taken at a random date of a made-up year to the exact files, or the names of what is gone."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from debian.debian_support import Version as Order

from reprobuild.ecosystems.apt.archives import AptArchive
from reprobuild.ecosystems.apt.first_seen import FirstSeen
from reprobuild.ecosystems.apt.index import PackagesFile, SystemIndex
from reprobuild.ecosystems.apt.launchpad import Launchpad
from reprobuild.ecosystems.apt.signatures import AptKeyring
from reprobuild.ecosystems.apt.snapshot_archive import ArchiveIndexes
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.retry import RetryPolicy
from reprobuild.lock.model import Resolution
from reprobuild.resolve.system.base import find_base
from reprobuild.resolve.system.fallback_sources import LaunchpadSource, PackageSource, StoreSource
from reprobuild.resolve.system.snapshot_archives import Past
from reprobuild.resolve.system.version_search import Search
from reprobuild.snapshot.model import SystemPackage
from reprobuild.snapshot.parsers.apt import parse
from reprobuild.store.store import Store
from tests.archives.served import Archives, Moods
from tests.archives.world import DAY, DEBIAN, END, START, UBUNTU, Shape, World, make_world

CASES = 20  # of each of two shapes
PATIENT = RetryPolicy(pause=0.01)


def newest(offered: dict[str, list[str]]) -> str:
    return max(offered, key=Order)


class Host:
    """A machine of that year: installs, upgrades now and then, and lists its packages after an `apt update`."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.dice = world, random.Random(seed)
        self.time = self.dice.randrange(START + 10 * DAY, END - DAY)
        self.installed: dict[str, str] = {}
        self.manual: set[str] = set()
        moments = sorted(self.dice.randrange(START, self.time) for _ in range(4))
        for moment in moments:
            self._apt(moment)
        self.own = {"handmade": "0.1"} if self.dice.random() < 0.3 else {}

    def _apt(self, moment: int) -> None:
        offered = self.world.offered(moment)
        if not self.installed:
            self.manual = set(self.dice.sample(sorted(offered), 12)) | {"dpkg", "libc6"}
            for name in self.manual:
                self._install(name, offered)
        for name in sorted(self.installed):
            if self.dice.random() < 0.5:
                self.installed[name] = max(self.installed[name], newest(offered[name]), key=Order)

    def _install(self, name: str, offered: dict[str, dict[str, list[str]]]) -> None:
        if name not in self.installed:
            self.installed[name] = newest(offered[name])
            field = self.world.needs.get(name, "").rpartition("Depends: ")[2]
            for other in filter(None, map(str.strip, field.split(","))):
                self._install(other, offered)

    def listing(self) -> bytes:
        """Return what `apt list --installed` prints, as apt-private/private-output.cc words it."""
        offered = self.world.offered(self.time)
        rows = ["Listing..."]
        for name, version in sorted({**self.installed, **self.own}.items()):
            pockets = offered.get(name, {}).get(version, [])
            candidate = newest(offered[name]) if name in offered else version
            if Order(candidate) > Order(version):
                status = f"installed,upgradable to: {candidate}"
            elif not pockets:
                status = "installed,local"
            else:
                status = "installed" if name in self.manual else "installed,automatic"
            rows.append(f"{name}/{','.join([*pockets, 'now'])} {version} amd64 [{status}]")
        return ("\n".join(rows) + "\n").encode()


@pytest.fixture(scope="module", params=[DEBIAN, UBUNTU], ids=["debian", "ubuntu"])
def year(request: pytest.FixtureRequest) -> Iterator[Archives]:
    world = make_world(request.param, seed=5)
    with Archives(world, Moods(resets=4, cuts=4, limits=8)) as archives:
        yield archives


def archives_in(archives: Archives, shape: Shape) -> list[AptArchive]:
    return [
        AptArchive(
            url=f"{archives.url}/{name}/{{time}}/", pockets=pockets, components=("main",),
            keys=("ppa" if name.startswith("ppa") else "own",),
        )
        for name, pockets in shape.archives.items()
    ]  # fmt: skip


def keyring(archives: Archives, folder: Path) -> dict[str, AptKeyring]:
    """Return the rings of the two keys, read from a directory as a machine has it."""
    found = {}
    for name, key in (("own", archives.world.key), ("ppa", archives.world.ppa_key)):
        certificate = key.extract_certificate()
        (folder / f"{name}.asc").write_text(str(certificate))
        found[name] = AptKeyring([certificate.fingerprint], [folder])
    return found


def mirror_now(world: World) -> SystemIndex:
    """Return what an ordinary mirror has at the end of the year."""
    shape = world.shape
    files = [
        PackagesFile(uri=f"http://mirror.test/{archive}/", content=world.packages(archive, pocket, END))
        for archive, pockets in shape.archives.items()
        for pocket in pockets
        if not archive.startswith("ppa")
    ]
    return SystemIndex(shape.distribution, shape.codename, files)


class Outcome:
    """What became of one listing."""

    def __init__(
        self, archives: Archives, packages: tuple[SystemPackage, ...], folder: Path, store: Store
    ) -> None:
        world = archives.world
        index, net, rings = mirror_now(world), Net(manners=PATIENT), keyring(archives, folder)
        indexes = ArchiveIndexes(net, store, lambda archive: rings[archive.keys[0]], ("amd64",))
        past = Past(archives_in(archives, world.shape), indexes, {package.name for package in packages})
        shelves: list[PackageSource] = [StoreSource(store, index.distribution, index.release)]
        seen = FirstSeen(f"{archives.url}/mr/binary/{{name}}/{{version}}/binfiles?fileinfo=1", net).list_times
        if world.shape is UBUNTU:
            service = Launchpad(f"{archives.url}/devel", net)
            shelves.append(LaunchpadSource(service, index.release, (), net, store))
        self.search = Search(
            packages, index, past, shelves, now=END, first_seen=seen if world.shape is DEBIAN else None
        )
        base, self.rulings, _ = find_base(packages, index, self.search, roots=[])
        self.files = {deb.name: (deb.version, deb.file.sha256) for deb in base.packages}

    def of(self, name: str) -> Resolution:
        return next(ruling for ruling in self.rulings if ruling.subject == name)


@pytest.mark.parametrize("case", range(CASES))
def test_a_random_listing_leads_to_the_exact_files(year: Archives, case: int, tmp_path: Path) -> None:
    host = Host(year.world, case)
    packages, remarks = parse(host.listing())
    assert not [remark for remark in remarks if not remark.understood]
    found = Outcome(year, packages, tmp_path, Store(tmp_path / "store"))
    for name, version in host.installed.items():
        if name in found.files:
            expected = hashlib.sha256(year.world.deb(name, version)).hexdigest()
            assert found.files[name] == (version, expected), found.of(name)
            assert found.of(name).outcome == "pinned"
        else:
            assert found.of(name).kind == "not-needed", found.of(name)
    for name in host.own:
        assert (found.of(name).outcome, found.of(name).kind) == ("unresolved", "local-build")
        assert "looked for in: this machine's mirror, " in found.of(name).reason
    if found.search.moment:
        assert found.search.moment.confidence > 0.85  # a version that was taken back misleads
