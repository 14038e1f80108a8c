"""Indexes of archives: signed, of the suite and time that were asked for, unpacked within bounds; or else an error."""

from __future__ import annotations

import gzip
import hashlib
import lzma
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path

import pytest
from pysequoia import SignatureMode, Tsk, sign

from reprobuild.ecosystems.apt import snapshot_archive
from reprobuild.ecosystems.apt.archives import AptArchive
from reprobuild.ecosystems.apt.signatures import AptKeyring
from reprobuild.ecosystems.apt.snapshot_archive import (
    ArchiveIndexes,
    ListedPackagesFile,
    format_identifier,
    format_instant,
    read_release,
)
from reprobuild.errors import FetchError
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.model import NotFoundError
from reprobuild.infra.http.retry import RetryPolicy
from reprobuild.store.store import Store
from tests.resolve.served import Reply, Served

KEY = Tsk.generate("archive <archive@archive.test>")
TIME = 1_700_000_000
PLAIN = b"Package: tool\nVersion: 1\nArchitecture: amd64\n"
PACKAGES = "/a/20231114T221320Z/dists/made/main/binary-amd64/Packages"
SIGNED = "/a/20231114T221320Z/dists/made/InRelease"
HINT = "it is damaged or made to harm: try again, or name another address with `--service`"


def inrelease(packed: bytes, suffix: str, **fields: str) -> bytes:
    rows = [(PLAIN, "")] + ([(packed, suffix)] if suffix else [])
    told = {"Suite": "made", "Codename": "made", "Date": formatdate(TIME - 3600, usegmt=True), **fields}
    listed = "".join(
        f" {hashlib.sha256(content).hexdigest()} {len(content)} main/binary-amd64/Packages{end}\n"
        for content, end in rows
    )
    text = "".join(f"{name}: {value}\n" for name, value in told.items()) + f"SHA256:\n{listed}"
    return sign(KEY.signer(), text.encode(), mode=SignatureMode.CLEAR)


@pytest.fixture
def served() -> Iterator[Served]:
    with Served() as server:
        yield server


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def indexes(store: Store, folder: Path, *, offline: bool = False) -> ArchiveIndexes:
    folder.mkdir(exist_ok=True)
    (folder / "key.asc").write_text(str(KEY.extract_certificate()))
    net = Net(offline=offline, manners=RetryPolicy(pause=0.01, tries=2))
    ring = AptKeyring([KEY.extract_certificate().fingerprint], [folder])
    return ArchiveIndexes(net, store, lambda _: ring, ("amd64",))


def archive(served: Served) -> AptArchive:
    return AptArchive(url=f"{served.url}/a/{{time}}/", pockets=("made",), components=("main",))


def listed_of(served: Served, store: Store, folder: Path) -> ListedPackagesFile:
    (found,) = indexes(store, folder).open_at(archive(served), TIME)
    return found


@pytest.mark.parametrize(
    ("suffix", "packed"), [(".xz", lzma.compress(PLAIN)), (".gz", gzip.compress(PLAIN, mtime=0)), ("", PLAIN)]
)
def test_an_index_is_read_and_then_nothing_is_asked_again(
    served: Served, store: Store, tmp_path: Path, suffix: str, packed: bytes
) -> None:
    served.give(SIGNED, inrelease(packed, suffix))
    served.give(PACKAGES + suffix, packed)
    (listed,) = indexes(store, tmp_path / "k").open_at(archive(served), TIME)
    file = indexes(store, tmp_path / "k").read(listed)
    assert (file.content, file.uri, file.automatic) == (PLAIN, f"{served.url}/a/20231114T221320Z/", True)
    asked = len(served.asked)
    again = indexes(store, tmp_path / "k", offline=True)
    assert again.read(again.open_at(archive(served), TIME)[0]).content == PLAIN
    assert len(served.asked) == asked


def test_an_expired_index_is_taken_as_it_was(served: Served, store: Store, tmp_path: Path) -> None:
    old = inrelease(b"", "", **{"Valid-Until": formatdate(TIME - 1800, usegmt=True)})
    served.give(SIGNED, old)
    assert listed_of(served, store, tmp_path / "k").plain_sha256 == hashlib.sha256(PLAIN).hexdigest()


def test_no_suite_at_all_is_not_found(served: Served, store: Store, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"/a/20231114T221320Z/ has none of made") as caught:
        indexes(store, tmp_path / "k").open_at(archive(served), TIME)
    assert caught.value.hint == "it did not exist then, or is not the archive of that release"


def refused(served: Served, store: Store, folder: Path) -> FetchError:
    with pytest.raises(FetchError) as caught:
        indexes(store, folder).open_at(archive(served), TIME)
    return caught.value


def test_a_signed_text_of_another_suite_is_refused(served: Served, store: Store, tmp_path: Path) -> None:
    served.give(SIGNED, inrelease(b"", "", Suite="other", Codename="another"))
    error = refused(served, store, tmp_path / "k")
    assert f"{SIGNED} is signed, and of another suite: other, another" in str(error)
    assert error.hint == "name the right address of that archive with `--service`"


def test_a_pocket_of_ubuntu_is_no_other_pocket(served: Served, store: Store, tmp_path: Path) -> None:
    """All of them have the release's code name."""
    served.give(SIGNED, inrelease(b"", "", Suite="made-proposed"))
    assert "is signed, and of another suite: made-proposed" in str(refused(served, store, tmp_path / "k"))


def test_the_keys_of_an_archive_are_looked_for_once(served: Served, store: Store, tmp_path: Path) -> None:
    served.give(SIGNED, inrelease(b"", ""))
    served.give(SIGNED.replace("221320", "231320"), inrelease(b"", ""))
    asked = []
    indexes(store, tmp_path / "k")
    ring = AptKeyring([KEY.extract_certificate().fingerprint], [tmp_path / "k"])

    def keyring(one: AptArchive) -> AptKeyring:
        asked.append(one.url)
        return ring

    counted = ArchiveIndexes(Net(), store, keyring, ("amd64",))
    for time in (TIME, TIME + 3600):
        counted.open_at(archive(served), time)
    assert len(asked) == 1


def test_a_signed_text_of_a_later_time_is_refused(served: Served, store: Store, tmp_path: Path) -> None:
    served.give(SIGNED, inrelease(b"", "", Date=formatdate(TIME + 200_000, usegmt=True)))
    error = refused(served, store, tmp_path / "k")
    assert "is of 2023-11-17 05:46 UTC, which is later than asked for" in str(error)
    assert error.hint == HINT


def test_a_signed_text_without_a_date_is_refused() -> None:
    with pytest.raises(FetchError, match="here tells no date: 'yesterday'") as caught:
        read_release(b"Suite: made\nDate: yesterday\n", "here")
    assert caught.value.hint == HINT


def test_an_endless_signed_text_is_refused(
    served: Served, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_archive, "_LONGEST_SIGNED", 100)
    content = inrelease(b"", "")
    served.give(SIGNED, content)
    assert f"{SIGNED} gives more than 100 bytes" in str(refused(served, store, tmp_path / "k"))


@pytest.mark.parametrize("other", [b"", b"something else", lzma.compress(PLAIN + b"\n")])
def test_another_index_than_the_signed_one_is_named_with_what_was_expected(
    served: Served, store: Store, tmp_path: Path, other: bytes
) -> None:
    packed = lzma.compress(PLAIN)
    served.give(SIGNED, inrelease(packed, ".xz"))
    served.give(f"{PACKAGES}.xz", other)
    listed = listed_of(served, store, tmp_path / "k")
    with pytest.raises(FetchError) as caught:
        indexes(store, tmp_path / "k").read(listed)
    assert f"{PACKAGES}.xz" in str(caught.value)
    assert str(len(packed)) in str(caught.value)
    assert not store.has(listed.sha256)


def bomb(served: Served, packed: bytes, suffix: str) -> None:
    served.give(SIGNED, inrelease(packed, suffix))
    served.give(PACKAGES + suffix, packed)


@pytest.mark.parametrize(
    ("packed", "suffix", "words"),
    [
        (lzma.compress(PLAIN * 9), ".xz", f"unpacks to more than {len(PLAIN)} bytes"),
        (gzip.compress(PLAIN * 9, mtime=0), ".gz", f"unpacks to more than {len(PLAIN)} bytes"),
        (b"no lzma", ".xz", "cannot be unpacked: "),
        (b"no gzip", ".gz", "cannot be unpacked: "),
        (lzma.compress(PLAIN[:-1] + b"x"), ".xz", "unpacks to something else than its signed index says"),
    ],
)
def test_what_unpacks_to_more_or_something_else_is_refused(
    served: Served, store: Store, tmp_path: Path, packed: bytes, suffix: str, words: str
) -> None:
    bomb(served, packed, suffix)
    listed = listed_of(served, store, tmp_path / "k")
    with pytest.raises(FetchError) as caught:
        indexes(store, tmp_path / "k").read(listed)
    assert words in str(caught.value)
    assert caught.value.hint == HINT


def test_a_half_fetched_index_of_an_earlier_run_does_no_harm(
    served: Served, store: Store, tmp_path: Path
) -> None:
    packed = lzma.compress(PLAIN)
    bomb(served, packed, ".xz")
    listed = listed_of(served, store, tmp_path / "k")
    part = store.root / "partial" / listed.sha256
    part.parent.mkdir()
    part.write_bytes(b"damaged")
    assert indexes(store, tmp_path / "k").read(listed).content == PLAIN


def test_credentials_of_an_archive_stay_out_of_what_is_kept(
    served: Served, store: Store, tmp_path: Path
) -> None:
    packed = lzma.compress(PLAIN)
    served.give(SIGNED, Reply(inrelease(packed, ".xz"), login="me:hunter2"))
    served.give(f"{PACKAGES}.xz", Reply(packed, login="me:hunter2"))
    own = archive(served)
    with_login = AptArchive(
        url=own.url.replace("//", "//me:hunter2@"), pockets=own.pockets, components=own.components
    )
    asked = indexes(store, tmp_path / "k")
    file = asked.read(asked.open_at(with_login, TIME)[0])
    assert "hunter2" not in file.uri
    kept = b"".join(path.read_bytes() for path in store.root.rglob("*") if path.is_file())
    assert b"hunter2" not in kept


def test_moments_as_archives_and_as_people_write_them() -> None:
    assert format_identifier(TIME) == "20231114T221320Z"
    assert format_instant(TIME) == "2023-11-14 22:13 UTC"
