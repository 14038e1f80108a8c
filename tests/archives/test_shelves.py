"""Places of single versions: the own store, Launchpad, the mirror's pool, the user's files; and what each refuses."""

from __future__ import annotations

import hashlib
import json
import tracemalloc
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from reprobuild.config.overrides import ArchiveDecision, Decisions
from reprobuild.config.services import Service, read_services
from reprobuild.ecosystems.apt.first_seen import FirstSeen
from reprobuild.ecosystems.apt.index import PackagesFile, SystemIndex
from reprobuild.ecosystems.apt.launchpad import Launchpad
from reprobuild.ecosystems.pypi.indexes import PackageIndexes
from reprobuild.errors import FetchError, LockError
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.retry import RetryPolicy
from reprobuild.lock.model import Resolution
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.system.base import find_base
from reprobuild.resolve.system.fallback_sources import (
    FoundVersion,
    LaunchpadSource,
    LocalDebs,
    MirrorPool,
    PackageSource,
    StoreSource,
    list_further_archives,
    list_user_debs,
)
from reprobuild.resolve.system.version_search import Search
from reprobuild.snapshot.model import AptList, Snapshot, SystemPackage
from reprobuild.store.store import Store
from tests.resolve.served import Reply, Served
from tests.system.samples import ar_bytes, member, package, stanza, tar_bytes

SYSTEM = (
    stanza("fakeroot", "1", "libfakeroot"), stanza("libfakeroot", "1"), stanza("dpkg", "1", "", "Essential: yes"),
    stanza("tool", "1.0-2"),
)  # fmt: skip
WANTED = package("tool", "1.0-1", "manual", line=7)
NET = Net(manners=RetryPolicy(pause=0.01, tries=2))


def deb(name: str = "tool", version: str = "1.0-1", more: str = "") -> bytes:
    control = f"Package: {name}\nVersion: {version}\nArchitecture: amd64\n{more}".encode()
    return ar_bytes(
        [
            ("debian-binary", b"2.0\n"),
            ("control.tar", tar_bytes([(member("./control"), control)])),
            ("data.tar", tar_bytes([])),
        ]
    )


@pytest.fixture
def served() -> Iterator[Served]:
    with Served() as server:
        yield server


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def mirror(uri: str = "http://mirror.test/") -> SystemIndex:
    return SystemIndex("debian", "made", [PackagesFile(uri=uri, content="\n".join(SYSTEM).encode())])


def resolve(
    shelf: PackageSource, index: SystemIndex, packages: tuple[SystemPackage, ...] = (WANTED,)
) -> tuple[tuple[str, str, str], Resolution]:
    """Return version, sha256 and address of the tool in the base, and its ruling."""
    search = Search(packages, index, None, [shelf], now=0)
    base, rulings, _ = find_base(packages, index, search, roots=[])
    found = next(one for one in base.packages if one.name == "tool")
    ruling = next(ruling for ruling in rulings if ruling.subject == "tool")
    return (found.version, found.file.sha256, found.file.url), ruling


def test_what_an_earlier_lock_pinned_is_in_the_own_store(store: Store) -> None:
    content = deb()
    sha256 = store.add(content)
    then = SystemIndex(
        "debian", "made",
        [PackagesFile(uri="http://then.test/", content=stanza("tool", "1.0-1").replace("0" * 64, sha256).encode())],
    )  # fmt: skip
    own = StoreSource(store, "debian", "made")
    own.keep(then.versions("tool"), then, {("tool", "1.0-1", "amd64"): FoundVersion(label="Launchpad")})
    own.keep(then.versions("tool"), then, {("tool", "1.0-1", "amd64"): FoundVersion(label="Launchpad")})
    found, ruling = resolve(StoreSource(store, "debian", "made"), mirror())
    assert found == ("1.0-1", sha256, "http://then.test/pool/tool_1.0-1_amd64.deb")
    assert (ruling.outcome, ruling.kind) == ("pinned", "")
    assert ruling.reason.endswith("; from Launchpad")  # as the first time, so that the lock is the same
    store.blob(sha256).unlink()  # the memory of a file is no file
    assert resolve(StoreSource(store, "debian", "made"), mirror())[0][0] == "1.0-2"
    assert resolve(StoreSource(store, "debian", "other"), mirror())[0][0] == "1.0-2"


def test_a_damaged_memory_of_the_store_is_no_obstacle(store: Store) -> None:
    keep_one(store, StoreSource(store, "debian", "made"))
    (path,) = (store.root / "packages").glob("debian-made-*/*.json")
    path.write_bytes(b"{")
    assert resolve(StoreSource(store, "debian", "made"), mirror())[0][0] == "1.0-2"


def keep_one(store: Store, own: StoreSource, label: str = "Launchpad") -> str:
    """Remember version 1.0-1 of `tool`, and return its digest."""
    sha256 = store.add(deb())
    content = stanza("tool", "1.0-1").replace("0" * 64, sha256).encode()
    then = SystemIndex("debian", "made", [PackagesFile(uri="http://then.test/", content=content)])
    own.keep(then.versions("tool"), then, {("tool", "1.0-1", "amd64"): FoundVersion(label=label)})
    return sha256


def test_the_archive_of_another_lock_provides_no_package(store: Store) -> None:
    foreign, own = ("ppa:mallory/tools",), ()
    keep_one(store, StoreSource(store, "debian", "made", foreign))
    assert resolve(StoreSource(store, "debian", "made", own), mirror())[0][0] == "1.0-2"
    assert resolve(StoreSource(store, "debian", "made", ("ppa:alice/tools",)), mirror())[0][0] == "1.0-2"
    assert resolve(StoreSource(store, "debian", "made", foreign), mirror())[0][0] == "1.0-1"


def test_a_file_of_the_user_is_for_that_lock_alone(store: Store) -> None:
    keep_one(store, StoreSource(store, "debian", "made"), LocalDebs.label)
    assert resolve(StoreSource(store, "debian", "made"), mirror())[0][0] == "1.0-2"


def test_the_archives_of_a_lock_are_those_of_its_snapshot_decisions_and_services(tmp_path: Path) -> None:
    apt_list = AptList(file="ppa.launchpadcontent.net_a_b_ubuntu_dists_jammy_InRelease", date=1, fetched=1)
    decisions = Decisions(archives=(ArchiveDecision(url="https://apt.example/", key="A" * 40),))
    usual = make_context(tmp_path, read_services({}))
    other = make_context(tmp_path, read_services({"debian-archive": "https://mirror.example/{time}/"}))
    assert list_further_archives(Snapshot(digest=""), Decisions(), usual) == []
    assert list_further_archives(Snapshot(digest="", apt_lists=(apt_list,)), decisions, other) == [
        '{"url":"ppa:a/b"}',
        f'{{"url":"https://apt.example/","key":"{"A" * 40}"}}',
        "debian-archive https://mirror.example/{time}/",
    ]


def make_context(folder: Path, services: Mapping[str, Service]) -> ResolveContext:
    return ResolveContext(
        store=Store(folder), net=NET, env={}, folder=folder, say=lambda _: None, now=0, services=services,
        indexes=PackageIndexes(find_links=(), simple=(), credentials={}),
    )  # fmt: skip


def test_a_file_that_only_the_pool_has_must_be_accepted(served: Served, store: Store) -> None:
    content = deb()
    served.give("/d/pool/tool_1.0-1_amd64.deb", content)
    found, ruling = resolve(MirrorPool(NET, store), mirror(f"{served.url}/d/"))
    expected = hashlib.sha256(content).hexdigest()
    assert found == ("1.0-1", expected, f"{served.url}/d/pool/tool_1.0-1_amd64.deb")
    assert (ruling.outcome, ruling.kind) == ("replaced", "unsigned-file")
    assert ruling.reason.endswith("; the file is from the mirror's pool, and no signed index names it")


def test_what_nobody_vouched_for_is_no_better_the_second_time(served: Served, store: Store) -> None:
    served.give("/d/pool/tool_1.0-1_amd64.deb", deb())
    index = mirror(f"{served.url}/d/")
    rulings = []
    for _ in range(2):
        own = StoreSource(store, "debian", "made")
        search = Search((WANTED,), index, None, [own, MirrorPool(NET, store)], now=0)
        base, found, whole = find_base((WANTED,), index, search, roots=[])
        own.keep([c for one in base.packages for c in whole.versions(one.name)], whole, search.found)
        rulings += [ruling for ruling in found if ruling.subject == "tool"]
    assert [ruling.kind for ruling in rulings] == ["unsigned-file", "unsigned-file"]
    assert rulings[0] == rulings[1]


def test_two_architectures_of_one_version_are_both_remembered(store: Store) -> None:
    own, known = StoreSource(store, "debian", "made"), {}
    for architecture in ("amd64", "i386"):
        known[architecture] = store.add(deb(more=f"X: {architecture}\n"))
        text = stanza("tool", "1.0-1").replace("0" * 64, known[architecture])
        text = text.replace("Architecture: amd64", f"Architecture: {architecture}")
        index = SystemIndex("debian", "made", [PackagesFile(uri="http://x.test/", content=text.encode())])
        key = "tool" if architecture == "amd64" else "tool:i386"
        own.keep(index.versions(key), index, {})
    again = StoreSource(store, "debian", "made")
    for architecture, sha256 in known.items():
        found = again.find(package("tool", "1.0-1", architecture=architecture), mirror())
        assert found is not None
        assert sha256.encode() in found[0].content


@pytest.mark.parametrize(
    "content",
    [
        deb(version="1.0-9"),
        deb(name="other"),
        b"<html>a page</html>",
        deb()[:300],
        deb().replace(b"Package:", b"Packag\xff"),
        b"",
    ],
)
def test_another_file_in_the_pool_is_not_taken(served: Served, store: Store, content: bytes) -> None:
    served.give("/d/pool/tool_1.0-1_amd64.deb", content)
    found, ruling = resolve(MirrorPool(NET, store), mirror(f"{served.url}/d/"))
    assert found[0] == "1.0-2"
    assert (ruling.outcome, ruling.kind) == ("replaced", "withdrawn")
    assert "looked for in: this machine's mirror, the mirror's pool" in ruling.reason


def test_the_epoch_of_a_version_is_not_in_the_name_of_its_file(served: Served, store: Store) -> None:
    content = deb(version="3:1.0-1")
    served.give("/d/pool/tool_1.0-1_amd64.deb", content)
    index = SystemIndex(
        "debian", "made",
        [PackagesFile(uri=f"{served.url}/d/", content="\n".join([*SYSTEM[:3], stanza("tool", "3:1.0-2")]).encode())],
    )  # fmt: skip
    found, _ = resolve(MirrorPool(NET, store), index, (package("tool", "3:1.0-1", "manual"),))
    assert found[:2] == ("3:1.0-1", hashlib.sha256(content).hexdigest())


def test_a_pool_that_does_not_answer_is_told(served: Served, store: Store) -> None:
    served.give("/d/pool/tool_1.0-1_amd64.deb", Reply(b"", 500))
    _, ruling = resolve(MirrorPool(NET, store), mirror(f"{served.url}/d/"))
    assert ruling.kind == "withdrawn"
    assert "the mirror's pool (" in ruling.reason


def test_files_of_the_user_are_taken_by_what_is_in_them(tmp_path: Path, store: Store) -> None:
    folder = tmp_path / "vendor"
    folder.mkdir()
    content = deb(more="Depends: dpkg\n")
    (folder / "tool_renamed.deb").write_bytes(content)
    (folder / "tool_1.0-1_amd64.deb").write_bytes(deb(version="9"))
    (folder / "other_1.deb").write_bytes(b"not looked at")
    paths = list_user_debs(["vendor"], tmp_path)
    assert [path.name for path in paths] == ["other_1.deb", "tool_1.0-1_amd64.deb", "tool_renamed.deb"]
    found, ruling = resolve(LocalDebs(paths, store), mirror())
    assert found == ("1.0-1", hashlib.sha256(content).hexdigest(), "")
    assert ruling.outcome == "pinned"
    assert ruling.reason.endswith("; from the user's files")
    assert store.has(found[1])


def test_a_file_that_only_the_user_has_settles_a_package_of_no_archive(tmp_path: Path, store: Store) -> None:
    (tmp_path / "site-tool_2.deb").write_bytes(deb("site-tool", "2"))
    packages = (package("site-tool", "2", "local", line=3),)
    index = mirror()
    search = Search(packages, index, None, [LocalDebs(list_user_debs(["."], tmp_path), store)], now=0)
    base, rulings, _ = find_base(packages, index, search, roots=[])
    assert "site-tool" in {one.name for one in base.packages}
    assert [ruling.outcome for ruling in rulings if ruling.subject == "site-tool"] == ["pinned"]


def test_a_given_file_that_is_not_there_is_named(tmp_path: Path, store: Store) -> None:
    (tmp_path / "vendor" / "tool_1.deb").mkdir(parents=True)
    for place, why in (("tool_1.deb", "No such file"), ("vendor", "Is a directory")):
        with pytest.raises(LockError, match=rf"deb cannot be read: {why}") as caught:
            resolve(LocalDebs(list_user_debs([place], tmp_path), store), mirror())
        assert caught.value.hint == "check the path that `--deb` gives"


# As https://api.launchpad.net/devel.html has them; the fields are those of real answers, the values made up.
PUBLICATIONS = {
    "total_size": 1, "start": 0,
    "entries": [{
        "self_link": "URL/devel/ubuntu/+archive/primary/+binarypub/1", "resource_type_link": "x",
        "binary_package_name": "tool", "binary_package_version": "1.0-1", "status": "Superseded", "pocket": "Updates",
        "date_published": "2023-04-01T10:00:00.000000+00:00", "date_superseded": "2023-04-03T10:00:00.000000+00:00",
    }],
}  # fmt: skip


class Pad:
    """Launchpad on loopback, with one publication."""

    def __init__(self, served: Served, content: bytes, archive: str = "ubuntu/+archive/primary") -> None:
        self.service = Launchpad(f"{served.url}/devel/", NET)
        series = f"{served.url}/devel/ubuntu/made/amd64".replace(":", "%3A").replace("/", "%2F")
        self.asked = (
            f"/devel/{archive}?ws.op=getPublishedBinaries&binary_name=tool&version=1.0-1&exact_match=true"
            f"&distro_arch_series={series}"
        )
        self.files = "/devel/ubuntu/+archive/primary/+binarypub/1?ws.op=binaryFileUrls&include_meta=true"
        self.give(served, PUBLICATIONS)
        told = {
            "url": f"{served.url}/+files/tool_1.0-1_amd64.deb", "size": len(content),
            "sha1": hashlib.sha1(content).hexdigest(), "sha256": hashlib.sha256(content).hexdigest(),
        }  # fmt: skip
        served.give(self.files, json.dumps([told, {**told, "url": "http://x.test/tool.ddeb"}]).encode())
        served.give("/+files/tool_1.0-1_amd64.deb", content)

    def give(self, served: Served, answer: object) -> None:
        served.give(self.asked, json.dumps(answer).replace("URL/", f"{served.url}/").encode())


def test_launchpad_has_what_the_mirror_lost(served: Served, store: Store) -> None:
    content = deb(more="Depends: dpkg\n")
    shelf = LaunchpadSource(Pad(served, content).service, "made", (), NET, store)
    found, ruling = resolve(shelf, mirror())
    assert found == (
        "1.0-1", hashlib.sha256(content).hexdigest(), f"{served.url}/+files/tool_1.0-1_amd64.deb"
    )  # fmt: skip
    assert (ruling.outcome, ruling.reason[-16:]) == ("pinned", "; from Launchpad")


def test_a_ppa_is_asked_after_the_distribution(served: Served, store: Store) -> None:
    content = deb()
    pad = Pad(served, content, "~some/+archive/ubuntu/fresh")
    shelf = LaunchpadSource(pad.service, "made", ["some/fresh"], NET, store)
    assert resolve(shelf, mirror())[0][1] == hashlib.sha256(content).hexdigest()
    served.give("/devel/~some/+archive/ubuntu/fresh", json.dumps({"signing_key_fingerprint": "AB"}).encode())
    assert pad.service.fingerprint("some/fresh") == "AB"
    served.give("/devel/~some/+archive/ubuntu/fresh", json.dumps({"signing_key_fingerprint": None}).encode())
    assert pad.service.fingerprint("some/fresh") == ""


def test_another_file_of_launchpad_is_refused_by_its_hash(served: Served, store: Store) -> None:
    pad = Pad(served, deb())
    served.give("/+files/tool_1.0-1_amd64.deb", deb(more="Depends: evil\n"))
    _, ruling = resolve(LaunchpadSource(pad.service, "made", (), NET, store), mirror())
    assert ruling.kind == "withdrawn"
    assert "Launchpad (tool_1.0-1_amd64.deb from " in ruling.reason


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"<html>", "answered something else"),
        (b"[" * 100_000, "answered something else"),
        (b'{"entries": [{"self_link": "http://elsewhere.test/x"}]}', "leads to http://elsewhere.test/x"),
        (b'{"entries": [{"self_link": "https://[x"}]}', r"leads to https://\[x"),
    ],
)
def test_a_strange_answer_is_named_and_asked_for_once(
    served: Served, store: Store, answer: bytes, words: str
) -> None:
    pad = Pad(served, deb())
    served.give(pad.asked, answer)
    with pytest.raises(FetchError, match=words) as caught:
        pad.service.published("tool", "1.0-1", "amd64", "made")
    assert (
        caught.value.hint
        == "the answer is not as documented: try again later, or give the files with `--deb`"
    )
    shelf = LaunchpadSource(pad.service, "made", (), NET, store)
    before = len(served.asked)
    for _ in range(3):
        with pytest.raises(FetchError):
            shelf.find(WANTED, mirror())
    assert len(served.asked) == before + 1


# As https://salsa.debian.org/snapshot-team/snapshot/raw/master/API has it.
BINFILES = {
    "_comment": "foo", "binary": "tool", "binary_version": "1:1.0-1",
    "result": [{"architecture": "amd64", "hash": "a"}],
    "fileinfo": {
        "a": [
            {"archive_name": "debian", "first_seen": "20231201T032000Z", "name": "t", "path": "/pool", "size": 1},
            {"archive_name": "debian-security", "first_seen": "20231130T000000Z", "name": "t", "path": "/p", "size": 1},
            {"archive_name": "debian", "first_seen": "never", "name": "t", "path": "/pool", "size": 1},
        ]
    },
}  # fmt: skip


def test_when_files_were_first_seen(served: Served) -> None:
    served.give("/mr/binary/tool/1%3A1.0-1/binfiles?fileinfo=1", json.dumps(BINFILES).encode())
    seen = FirstSeen(f"{served.url}/mr/binary/{{name}}/{{version}}/binfiles?fileinfo=1", NET)
    assert seen.list_times("tool", "1:1.0-1") == (1701302400, 1701400800)
    assert seen.list_times("tool", "2") == ()
    many = {
        str(file): [
            {"first_seen": f"2023{month:02}{day:02}T0000{file:02}Z"}
            for month in range(1, 13)
            for day in range(1, 9)
        ]
        for file in range(60)
    }
    served.give("/mr/binary/tool/4/binfiles?fileinfo=1", json.dumps({"fileinfo": many}).encode())
    assert seen.list_times("tool", "4") == tuple(1672531200 + second for second in range(12))
    served.give("/mr/binary/tool/3/binfiles?fileinfo=1", b"oops")
    with pytest.raises(FetchError, match="answered something else") as caught:
        seen.list_times("tool", "3")
    assert caught.value.hint == "try again later, or give the files with `--deb`"


def test_lines_between_paragraphs_cost_no_memory() -> None:
    """An index of line breaks alone is some bytes in an archive."""
    content = (
        b"\n" * (8 << 20)
        + stanza("tool", "1.0-1").encode()
        + b"\n\n\n"
        + stanza("other", "2").encode()
        + b"\n"
    )
    tracemalloc.start()
    try:
        index = SystemIndex("debian", "made", [PackagesFile(uri="http://made.test/", content=content)])
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert [candidate.version for candidate in index.versions("tool")] == ["1.0-1"]
    assert [candidate.version for candidate in index.versions("other")] == ["2"]


def test_few_moments_are_tried_near_the_first_sightings() -> None:
    """Each one costs requests to every archive."""
    tried: list[int] = []

    class Empty:
        answers, silent = True, dict[str, str]()

        def find_offer(self, time: int) -> None:
            tried.append(time)

    hours = range(0, 10_000 * 3600, 3600)
    search = Search((WANTED,), mirror(), Empty(), [], now=0, first_seen=lambda name, version: hours[::-1])
    assert search._search_first_sighting(WANTED, []) is None
    assert len(tried) == len({*tried}) == 60
    assert tried[:6] == [0, 6 * 3600, 12 * 3600, 24 * 3600, 48 * 3600, 3600]
