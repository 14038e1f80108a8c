"""Which archives a release is made of, and the whole way: this machine's apt, then the archives of the past."""

from __future__ import annotations

import hashlib
import lzma
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from reprobuild.config.overrides import ArchiveDecision, Decisions
from reprobuild.config.services import read_services, request_distances
from reprobuild.ecosystems.apt.archives import AptArchive, archives_of, ppas_of, present_archives
from reprobuild.ecosystems.apt.snapshot_archive import format_identifier, format_instant
from reprobuild.ecosystems.pypi.indexes import PackageIndexes
from reprobuild.errors import LockError
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.retry import RetryPolicy
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.system.apt_update_time import RESOLUTION
from reprobuild.resolve.system.base import BaseRequest, ReleaseBase
from reprobuild.resolve.system.release import DistributionRelease
from reprobuild.snapshot.model import AptList, Snapshot
from reprobuild.snapshot.parsers.apt import parse
from reprobuild.store.store import Store
from tests.archives.served import Archives
from tests.archives.test_year import Host
from tests.archives.world import END, UBUNTU, World, make_world

SERVICES = read_services({})


def test_debian_has_two_archives_and_ubuntu_one() -> None:
    main, security = archives_of("debian", "bookworm", SERVICES)
    assert main.pockets == ("bookworm", "bookworm-updates")
    assert main.unasked == ("bookworm-backports",)
    assert security.pockets == ("bookworm-security", "bookworm/updates")
    (ubuntu,) = archives_of("ubuntu", "jammy", SERVICES)
    assert ubuntu.pockets == ("jammy", "jammy-updates", "jammy-security")
    assert all(one.dated and one.keys for one in (main, security, ubuntu))
    assert archives_of("other", "x", SERVICES) == ()


def test_services_that_throttle_are_asked_slowly() -> None:
    assert request_distances(SERVICES)["snapshot.debian.org"] == 0.5
    assert (
        request_distances(read_services({"debian-snapshot": "http://own.test/{time}/"}))[
            "snapshot.debian.org"
        ]
        == 0.5
    )
    assert "own.test" not in request_distances(read_services({"debian-snapshot": "http://own.test/{time}/"}))


def test_archives_that_the_user_names() -> None:
    given = [
        ArchiveDecision(url="ppa:deadsnakes/ppa"),
        ArchiveDecision(url="https://site.test/{time}", key="AB" * 20, suites=("x",), components=("y", "z")),
        ArchiveDecision(url="https://site.test/now/", key="ab" * 32),
    ]
    ppa, dated, plain = archives_of("ubuntu", "jammy", SERVICES, given)[1:]
    assert ppa.url == "https://snapshot.ppa.launchpadcontent.net/deadsnakes/ppa/ubuntu/{time}/"
    assert (ppa.ppa, ppa.pockets, ppa.components) == ("deadsnakes/ppa", ("jammy",), ("main",))
    assert dated == AptArchive(
        url="https://site.test/{time}/", pockets=("x",), components=("y", "z"), keys=("AB" * 20,)
    )
    assert (plain.dated, plain.pockets) == (False, ("jammy",))


@pytest.mark.parametrize(
    ("given", "words", "hint"),
    [
        (ArchiveDecision(url="https://x.test/", key="short"), "`short` is not the fingerprint of a key of https://x.test/",
         "40 hex digits: `gpg --show-keys FILE` shows them"),
        (ArchiveDecision(url="https://me:pass@x.test/"), "the archive https://x.test/ is given with a login",
         "put the login into ~/.netrc, for the packages, too"),
        (ArchiveDecision(url="https://x.test/"), "nothing says which key signs the archive https://x.test/",
         "give its fingerprint in reprobuild.yaml: `archives: [{url: ..., key: ...}]`"),
        (ArchiveDecision(url="ppa:../x"), "`ppa:../x` is not an archive of packages",
         "an address (with {time} where it keeps its past), or ppa:OWNER/NAME"),
        (ArchiveDecision(url="x.test"), "`x.test` is not an archive of packages",
         "an address (with {time} where it keeps its past), or ppa:OWNER/NAME"),
    ],
)  # fmt: skip
def test_what_is_no_archive_is_refused(given: ArchiveDecision, words: str, hint: str) -> None:
    with pytest.raises(LockError) as caught:
        archives_of("ubuntu", "jammy", SERVICES, [given])
    assert (str(caught.value), caught.value.hint) == (words, hint)


def test_ppas_of_the_captured_machine_are_known_from_its_lists() -> None:
    files = [
        "ppa.launchpadcontent.net_deadsnakes_ppa_ubuntu_dists_jammy_InRelease",
        "ppa.launchpad.net_some_more_name_ubuntu_dists_jammy_InRelease",
        "archive.ubuntu.com_ubuntu_dists_jammy_InRelease",
        "ppa.launchpadcontent.net_.._.._ubuntu_dists_x",
    ]
    found = ppas_of([AptList(file=file) for file in files])
    assert [one.url for one in found] == ["ppa:deadsnakes/ppa", "ppa:some/more_name"][: len(found)]
    assert found[0].url == "ppa:deadsnakes/ppa"


def apt_of(world: World, folder: Path, release: str) -> Mapping[str, str]:
    """Return an environment in which apt has the archive of today alone, as a signed repository on disk."""
    (archive, pockets), *_ = world.shape.archives.items()
    for pocket in pockets:
        place = folder / "mirror" / "dists" / pocket.replace("jammy", release)
        (place / "main/binary-amd64").mkdir(parents=True)
        packed = lzma.compress(world.packages(archive, pocket, END), preset=0)
        (place / "main/binary-amd64/Packages.xz").write_bytes(packed)
        (place / "InRelease").write_bytes(world.signed(archive, pocket, END))
    (folder / "key.asc").write_text(str(world.key.extract_certificate()))
    (folder / "made.sources").write_text(
        f"Types: deb\nURIs: file:{folder}/mirror\nComponents: main\n"
        f"Suites: {' '.join(pockets).replace('jammy', release)}\n"
        f"Signed-By: {folder}/key.asc\nCheck-Valid-Until: no\n"
    )
    (folder / "apt.conf").write_text(
        f'Dir::Etc::SourceList "{folder}/made.sources";\nDir::Etc::SourceParts "/dev/null";\n'
        f'Dir::State::Lists "{folder}/lists";\n'
    )
    return {**os.environ, "APT_CONFIG": str(folder / "apt.conf")}


class Way:
    """A host of the made-up year of Ubuntu's shape with a PPA, resolved with everything in its place."""

    def __init__(
        self,
        archives: Archives,
        folder: Path,
        services: dict[str, str],
        *,
        lists: bool = False,
        release_of_apt: str = "jammy",
        past: bool = True,
        own: bool = False,
    ) -> None:
        world = archives.world
        self.host = next(
            host for seed in range(99) if (host := Host(world, seed)).manual & {"fresh0", "fresh1"}
        )
        packages, _ = parse(self.host.listing())
        env = apt_of(world, folder, release_of_apt)
        self.said: list[str] = []
        around = ResolveContext(
            store=Store(folder / "store"), net=Net(manners=RetryPolicy(pause=0.01, tries=2)), env=env, folder=folder,
            indexes=PackageIndexes(find_links=(), simple=(), credentials={}), say=self.said.append, now=END,
            key_folders=(folder,), services=read_services(services),
        )  # fmt: skip
        (folder / "ppa.asc").write_text(str(world.ppa_key.extract_certificate()))
        ppa = ArchiveDecision(
            url=f"{archives.url}/ppa/tools/fresh/ubuntu/{'{time}' if past else format_identifier(self.host.time)}/",
            key=world.ppa_key.extract_certificate().fingerprint,
        )
        if own:  # the distribution's own archive as it was, without its past
            ppa = ArchiveDecision(
                url=f"{archives.url}/ubuntu/{format_identifier(self.host.time)}/",
                key=world.key.extract_certificate().fingerprint, suites=UBUNTU.archives["ubuntu"], components=("main",),
            )  # fmt: skip
        apt_lists = (
            (AptList(file="x", date=self.host.time - 9999, fetched=self.host.time - RESOLUTION),)
            if lists
            else ()
        )
        snapshot = Snapshot(digest="", packages=packages, apt_lists=apt_lists)
        wanted = BaseRequest(
            release=DistributionRelease(distribution="ubuntu", codename="jammy", evidence="told"),
            architecture="amd64",
            roots=(),
        )
        decisions = Decisions(services=services, archives=(ppa,), system="all")
        self.base, self.rulings = ReleaseBase(snapshot, wanted, decisions, around).pin()
        self.files = {deb.name: (deb.version, deb.file.sha256) for deb in self.base.packages}

    @property
    def expected(self) -> dict[str, tuple[str, str]]:
        """Return the captured versions of what is in the base, with the hashes of their files."""
        world, installed = self.world, self.host.installed
        return {
            name: (installed[name], hashlib.sha256(world.deb(name, installed[name])).hexdigest())
            for name in self.files
            if name in installed
        }

    @property
    def world(self) -> World:
        return self.host.world

    @property
    def evidence(self) -> str:
        return next(ruling.reason for ruling in self.rulings if ruling.kind == "release")


def services_of(archives: Archives, keys: str = "") -> dict[str, str]:
    return {
        "ubuntu-snapshot": f"{archives.url}/ubuntu/{{time}}/", "launchpad": f"{archives.url}/devel",
        "keyserver": f"{keys or archives.url}/none/{{fingerprint}}", "ubuntu-archive": f"{archives.url}/none/",
    }  # fmt: skip


@pytest.fixture
def pinned_key(monkeypatch: pytest.MonkeyPatch) -> World:
    """A world whose own key stands in the table of pinned ones."""
    world = make_world(UBUNTU, 11)
    from reprobuild.ecosystems.apt import archives as module

    real = module.archives_of

    def pinned(*arguments: object) -> tuple[AptArchive, ...]:
        fingerprint = world.key.extract_certificate().fingerprint
        own, *others = real(*arguments)  # type: ignore[arg-type]  # handed on
        return (msgspec.structs.replace(own, keys=(fingerprint,), components=("main",)), *others)

    def pinned_now(*arguments: object) -> tuple[AptArchive, ...]:
        (own,) = module.present_archives(*arguments)  # type: ignore[arg-type]  # handed on
        fingerprint = world.key.extract_certificate().fingerprint
        return (msgspec.structs.replace(own, keys=(fingerprint,), components=("main",)),)

    monkeypatch.setattr("reprobuild.resolve.system.base.archives_of", pinned)
    monkeypatch.setattr("reprobuild.resolve.system.base.present_archives", pinned_now)
    return world


def test_the_whole_way_from_a_list_to_exact_files_with_a_ppa(pinned_key: World, tmp_path: Path) -> None:
    with Archives(pinned_key) as archives:
        way = Way(archives, tmp_path, services_of(archives))
    assert way.expected.items() <= way.files.items()
    assert {"fresh0", "fresh1"} & way.host.manual & set(way.files)
    assert "ubuntu/jammy: told; the last `apt update` was about " in way.evidence
    assert any(
        "captured versions are not on this machine's mirror; looking for them" in said for said in way.said
    )


def test_lists_of_the_capture_are_asked_first(pinned_key: World, tmp_path: Path) -> None:
    with Archives(pinned_key) as archives:
        way = Way(archives, tmp_path, services_of(archives), lists=True)
    assert way.expected.items() <= way.files.items()
    assert f"the last `apt update` was about {format_instant(way.host.time)}" in way.evidence


def test_a_machine_without_a_source_for_the_release_takes_all_from_the_archives(
    pinned_key: World, tmp_path: Path
) -> None:
    with Archives(pinned_key) as archives:
        way = Way(archives, tmp_path, services_of(archives), release_of_apt="noble")
    assert way.expected.items() <= way.files.items()
    assert any(
        "has no source for ubuntu/jammy; asking the archives that are known" in said for said in way.said
    )
    assert {deb.file.url.split("/")[2] for deb in way.base.packages} == {archives.url.removeprefix("http://")}


def test_an_archive_without_a_past_is_asked_for_what_is_missing(pinned_key: World, tmp_path: Path) -> None:
    with Archives(pinned_key) as archives:
        way = Way(archives, tmp_path, services_of(archives), past=False)
    assert way.host.manual & {"fresh0", "fresh1"} <= way.files.keys()
    assert way.expected.items() <= way.files.items()


def test_where_no_dated_archive_answers_the_release_is_taken_as_it_is_now(
    pinned_key: World, tmp_path: Path
) -> None:
    with Archives(pinned_key) as archives:
        services = services_of(archives) | {
            "ubuntu-snapshot": "http://127.0.0.1:9/{time}/",
            "ubuntu-archive": f"{archives.url}/ubuntu/{format_identifier(END)}/",
        }
        way = Way(archives, tmp_path, services, release_of_apt="noble")
    assert {deb.file.url.split("/")[2] for deb in way.base.packages} == {archives.url.removeprefix("http://")}
    # Launchpad has the captured versions of the distribution.
    mine = {name for name in way.files if not name.startswith("fresh")}
    assert {name: way.files[name] for name in mine & way.expected.keys()}.items() <= way.expected.items()
    assert "the archive http://127.0.0.1:9/{time}/ did not answer: " in way.evidence


def test_an_archive_without_a_past_serves_the_release_alone(pinned_key: World, tmp_path: Path) -> None:
    """No service answers, and this machine's apt has another release: the archive that the user names has all."""
    dead = "http://127.0.0.1:9"
    services = {
        "ubuntu-snapshot": f"{dead}/{{time}}/", "launchpad": dead, "keyserver": f"{dead}/{{fingerprint}}",
        "ubuntu-archive": f"{dead}/",
    }  # fmt: skip
    with Archives(pinned_key) as archives:
        way = Way(archives, tmp_path, services, release_of_apt="noble", own=True)
    assert {deb.file.url.split("/")[2] for deb in way.base.packages} == {archives.url.removeprefix("http://")}
    captured = way.expected.items()
    assert len(captured & way.files.items()) > 0.9 * len(captured) > 10  # one was replaced a moment before


def test_the_archives_of_a_release_as_they_are_now() -> None:
    main, security = present_archives("debian", "bookworm", SERVICES, "arm64")
    assert (main.url, main.pockets) == ("https://ftp.debian.org/debian/", ("bookworm", "bookworm-updates"))
    assert security.pockets == ("bookworm-security", "bookworm/updates")
    assert not main.dated
    found = {
        name: present_archives("ubuntu", "jammy", SERVICES, name)[0].url
        for name in ("amd64", "i386", "arm64")
    }
    assert found == {
        "amd64": "http://archive.ubuntu.com/ubuntu/", "i386": "http://archive.ubuntu.com/ubuntu/",
        "arm64": "http://ports.ubuntu.com/ubuntu-ports/",
    }  # fmt: skip
    assert present_archives("other", "x", SERVICES, "amd64") == ()


def test_a_release_that_nobody_has_is_an_error(pinned_key: World, tmp_path: Path) -> None:
    with Archives(pinned_key) as archives:
        dead = "http://127.0.0.1:9"
    services = {
        "ubuntu-snapshot": f"{dead}/{{time}}/",
        "launchpad": dead,
        "keyserver": f"{dead}/{{fingerprint}}",
        "ubuntu-archive": dead,
    }
    with pytest.raises(LockError, match="apt of this machine has no source for ubuntu/jammy"):
        Way(archives, tmp_path, services, release_of_apt="noble")


@pytest.mark.parametrize("answers", [1, 9, 40])
def test_an_archive_that_falls_silent_midway_bounds_nothing(
    pinned_key: World, tmp_path: Path, answers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Archives(pinned_key) as archives:
        real = archives.answer

        def dying(path: str) -> tuple[int, bytes, str]:
            return real(path) if len(archives.asked) <= answers else (503, b"", "")

        monkeypatch.setattr(archives, "answer", dying)
        way = Way(archives, tmp_path, services_of(archives))
    assert f"the archive {archives.url}/ubuntu/{{time}}/ did not answer: " in way.evidence
    gone = [ruling for ruling in way.rulings if ruling.kind == "withdrawn"]
    assert gone
    assert all("the dated archives (none answered)" in r.reason or ", without " in r.reason for r in gone)


def test_archives_that_cannot_be_reached_leave_what_the_mirror_has_and_are_named(
    pinned_key: World, tmp_path: Path
) -> None:
    with Archives(pinned_key) as archives:
        dead = "http://127.0.0.1:9"
    services = {
        "ubuntu-snapshot": f"{dead}/{{time}}/",
        "launchpad": dead,
        "keyserver": f"{dead}/{{fingerprint}}",
    }
    way = Way(archives, tmp_path, services)
    gone = [ruling for ruling in way.rulings if ruling.kind == "withdrawn"]
    assert gone
    assert all("the dated archives (none answered), Launchpad (" in ruling.reason for ruling in gone)
    assert any(f"the archive {dead}" in said and "is left out: " in said for said in way.said)
