"""Lock to store: what is brought, what is refused, and that the next run goes on."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from reprobuild.errors import FetchError
from reprobuild.infra.flock import machine_name
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.retry import RetryPolicy
from reprobuild.lock.system import Artefact, Base, Deb
from reprobuild.store import fetch as fetch_module
from reprobuild.store.caches import Caches
from reprobuild.store.fetch import fetch, list_artefacts
from reprobuild.store.store import Store
from tests.image.made import Made
from tests.resolve.served import Reply, Served

BODY = bytes(range(256)) * 2000


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Served() as server:
        yield server


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def artefact(url: str, content: bytes, *, name: str = "x.whl") -> Artefact:
    return Artefact(filename=name, sha256=hashlib.sha256(content).hexdigest(), size=len(content), url=url)


def unfinished(store: Store) -> list[str]:
    return sorted(path.name for path in (store.root / "partial").iterdir())


def test_what_is_missing_is_brought_once(served: Served, store: Store) -> None:
    wanted = [artefact(served.give(f"/{n}", bytes([n]) * 100), bytes([n]) * 100) for n in range(20)]
    seen: list[tuple[int, int, str]] = []

    def progress(done: int, total: int, detail: str = "", *, unit: str = "") -> None:
        seen.append((done, total, detail))

    assert fetch(wanted, store, Net(), progress) == 20
    assert [store.blob(item.sha256).read_bytes() for item in wanted] == [bytes([n]) * 100 for n in range(20)]
    assert [done for done, _, _ in seen] == sorted(done for done, _, _ in seen)
    assert seen[-1] == (2000, 2000, "20 of 20 files, x.whl")
    assert unfinished(store) == []
    assert fetch(wanted, store, Net(offline=True)) == 0
    assert len(served.asked) == 20


def test_files_that_do_not_fit_are_refused_before_a_download(served: Served, store: Store) -> None:
    """A registry or a lock can state any size."""
    large = msgspec.structs.replace(artefact(served.give("/x.whl", BODY), BODY), size=1 << 60)
    with pytest.raises(FetchError, match=f"1 missing files have {1 << 60} bytes, and ") as caught:
        fetch([large], store, Net())
    assert caught.value.hint == (
        "remove unneeded files (`reprobuild store gc`), or name a store on another disk: --store DIR"
    )
    assert served.asked == []


def test_a_link_that_was_signed_when_it_was_locked(served: Served, store: Store) -> None:
    url = served.give("/x", Reply(status=403))
    with pytest.raises(FetchError, match=r"x.whl .* cannot be fetched: .*/x refuses access") as caught:
        fetch([artefact(url, b"x")], store, Net())
    assert caught.value.hint.endswith("; an index that signs its links must be asked again: make a new lock")


def test_another_file_is_refused_and_named_and_the_others_are_kept(served: Served, store: Store) -> None:
    good = artefact(served.give("/good", b"good"), b"good")
    bad = artefact(served.give("/bad", b"change"), b"locked", name="bad-1.0-py3-none-any.whl")
    with pytest.raises(FetchError) as caught:
        fetch([good, bad], store, Net())
    said = str(caught.value)
    assert said.startswith(f"bad-1.0-py3-none-any.whl from {served.url}/bad is not the file that was locked")
    assert hashlib.sha256(b"change").hexdigest() in said
    assert "(6 bytes)" in said
    assert said.endswith(f"locked as sha256 {bad.sha256}, 6 bytes")
    assert caught.value.hint == (
        "the publisher or a mirror changed it; find the locked file, or make a new lock"
    )
    assert not store.has(bad.sha256)
    served.give("/bad", b"locked")
    fetch([good, bad], store, Net())
    assert store.has(good.sha256)
    assert store.blob(bad.sha256).read_bytes() == b"locked"
    assert unfinished(store) == []


@pytest.mark.parametrize("content", [b"<!DOCTYPE html>\n<title>Log in</title>", b"\n <HTML><body>"])
def test_a_page_in_the_place_of_a_file_is_told(served: Served, store: Store, content: bytes) -> None:
    item = msgspec.structs.replace(artefact(served.give("/x", content), b"x"), size=0)
    with pytest.raises(FetchError, match="is not the file that was locked") as caught:
        fetch([item], store, Net())
    assert caught.value.hint == (
        "a web page came in its place: open the address in a browser; is a login needed, or a proxy in between?"
    )


def test_what_is_no_hash_is_no_file(store: Store, tmp_path: Path) -> None:
    for sha256 in ("../../../etc/passwd", "", "AB" * 32, "ab" * 32 + "\n"):
        item = Artefact(filename="x", sha256=sha256, size=1, url="http://127.0.0.1:1/x")
        with pytest.raises(FetchError, match="is no sha256") as caught:
            fetch([item], store, Net())
        assert caught.value.hint == "make the lock again with `reprobuild lock DIR`"
        assert not store.has(sha256)
    assert not any(path.is_file() for path in store.root.rglob("*"))


def test_a_login_in_an_address_is_in_no_error(served: Served, store: Store) -> None:
    url = served.give("/x", b"other").replace("://", "://alice:pa55word@")
    for wanted in (artefact(url, b"x"), msgspec.structs.replace(artefact(url, b"x"), size=0)):
        with pytest.raises(FetchError) as caught:
            fetch([wanted], store, Net())
        assert "pa55word" not in str(caught.value) + caught.value.hint
        assert f"{served.url}/x" in str(caught.value)


def test_bytes_of_an_attempt_that_failed_count_once(served: Served, store: Store) -> None:
    """A long name loses its middle, so that the line that moves has room for the numbers."""
    name = "nvidia_cuda_runtime_cu12-12.4.127-py3-none-manylinux2014_x86_64.whl"
    item = artefact(served.give("/x", b"x" * 1000), b"x" * 1000, name=name)
    part = store.root / "partial" / f"{item.sha256}.{machine_name()}"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"y" * 900)
    seen: list[tuple[int, int, str]] = []
    fetch([item], store, Net(), lambda *state, **_: seen.append(state))
    assert all(done <= total == 1000 for done, total, _ in seen)
    assert seen[-1] == (1000, 1000, "1 of 1 files, nvidia_cuda_runtime_cu12-12....86_64.whl")


def test_an_interrupted_fetch_goes_on(served: Served, store: Store) -> None:
    item = artefact(served.give("/x", Reply(BODY, cut=len(BODY) - 10), Reply(status=418), BODY), BODY)
    with pytest.raises(FetchError, match="HTTP 418"):
        fetch([item], store, Net(manners=RetryPolicy(pause=0)))
    assert fetch([item], store, Net()) == 1
    assert store.verified(item.sha256, "x").read_bytes() == BODY
    assert served.headers("Range") == [None, *[f"bytes={len(BODY) - 10}-"] * 2]


def test_a_damaged_part_is_not_blamed_on_the_publisher(served: Served, store: Store) -> None:
    item = artefact(served.give("/x", BODY), BODY)
    part = store.root / "partial" / f"{item.sha256}.{machine_name()}"
    part.parent.mkdir(parents=True)
    part.write_bytes(bytes(1000))
    assert fetch([item], store, Net()) == 1
    assert store.blob(item.sha256).read_bytes() == BODY
    assert served.headers("Range") == ["bytes=1000-", None]


def test_what_was_made_here_cannot_be_brought(store: Store) -> None:
    with pytest.raises(
        FetchError, match=r"x\.tar \(sha256 2d.*, 1 bytes\) was made when the lock was made"
    ) as caught:
        fetch([artefact("", b"x", name="x.tar")], store, Net())
    assert caught.value.hint == (
        "run `reprobuild from-snapshot` with the snapshot and its sources, which makes it again; "
        "or name the store of then: --store DIR"
    )


def test_files_that_no_address_has_are_named_before_any_other_is_fetched(
    served: Served, store: Store
) -> None:
    """The hints name all of them, and the lock is fetched after the store has them."""
    made = [artefact("", f"{n}".encode(), name=f"{n}.tar") for n in range(7)]
    given = [artefact("", f"deb {n}".encode(), name=f"{n}.deb") for n in range(2)]
    item = artefact(served.give("/x", BODY), BODY)
    with pytest.raises(FetchError) as caught:
        fetch([item, *made, *given], store, Net())
    assert served.headers("Range") == []
    assert not store.has(item.sha256)
    first, second = str(caught.value).splitlines()
    assert re.fullmatch(
        r"0\.deb \(sha256 \w+, 5 bytes\), 1\.deb \(.*\) were given with `--deb` when the lock was made, and are not "
        r"in the store .*",
        first,
    )
    assert re.fullmatch(
        r"0\.tar \(.*\), .*, 4\.tar \(.*\) and 2 more were made when the lock was made, and are not in the store .*",
        second,
    )
    assert caught.value.hint.splitlines() == [
        "lock again with those files, or use the store of then",
        "run `reprobuild from-snapshot` with the snapshot and its sources, which makes them again; "
        "or name the store of then: --store DIR",
    ]
    for lost, body in zip((*made, *given), [b"%d" % n for n in range(7)] + [b"deb 0", b"deb 1"], strict=True):
        (store.root / lost.filename).write_bytes(body)
        store.adopt(store.root / lost.filename, lost.sha256)
    assert fetch([item, *made, *given], store, Net()) == 1


def test_a_file_without_an_address_may_be_in_a_cache(store: Store, tmp_path: Path) -> None:
    (tmp_path / "tool_1.deb").write_bytes(b"x")
    own = artefact("", b"x", name="tool_1.deb")
    fetch([own], store, Net(), caches=Caches(apt=(tmp_path,)))
    assert store.blob(own.sha256).read_bytes() == b"x"


def test_a_package_of_the_users_own_cannot_be_brought_either(store: Store) -> None:
    with pytest.raises(
        FetchError,
        match=r"tool_1\.deb \(sha256 2d.*, 1 bytes\) was given with `--deb` when the lock was made",
    ) as caught:
        fetch([artefact("", b"x", name="tool_1.deb")], store, Net())
    assert caught.value.hint == "lock again with that file, or use the store of then"


def test_what_is_there_is_verified(served: Served, store: Store) -> None:
    item = artefact(served.give("/x", BODY), BODY)
    fetch([item], store, Net())
    blob = store.blob(item.sha256)
    blob.chmod(0o644)
    blob.write_bytes(BODY[:-1] + b"!")
    assert fetch([item], Store(store.root), Net()) == 1
    assert blob.read_bytes() == BODY


def test_offline_names_the_address(served: Served, store: Store) -> None:
    item = artefact(served.give("/x", BODY), BODY)
    with pytest.raises(FetchError, match=f"{served.url}/x is needed, and --offline forbids the network"):
        fetch([item], store, Net(offline=True))
    assert served.asked == []


def test_two_processes_may_bring_one_file(served: Served, store: Store) -> None:
    item = artefact(served.give("/x", Reply(BODY, pause=0.03)), BODY)
    program = (
        "import sys; from pathlib import Path; from reprobuild.store.fetch import fetch;"
        "from reprobuild.infra.http.client import Net;"
        "from reprobuild.lock.system import Artefact; from reprobuild.store.store import Store;"
        "url, sha256, size, root = sys.argv[1:];"
        "fetch([Artefact(filename='x', sha256=sha256, size=int(size), url=url)], Store(Path(root)), Net())"
    )
    argv = [sys.executable, "-c", program, item.url, item.sha256, str(item.size), str(store.root)]
    both = [subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for process in both:
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
    assert store.verified(item.sha256, "x").read_bytes() == BODY
    assert len(served.asked) == 1
    assert unfinished(store) == []


def test_every_file_of_a_lock_is_named_once(tmp_path: Path) -> None:
    made = Made(tmp_path)
    wheel = made.wheel("one", {"one.py": b""})
    made.wheels.append(msgspec.structs.replace(wheel, role="build"))
    source = made.source("two", [])
    debs = tuple(
        Deb(name=n, version="1", architecture="amd64", essential=False, file=artefact("u", n.encode()))
        for n in "ab"
    )
    lock = made.lock(base=Base(distribution="debian", release="x", packages=debs[:1], tools=debs))
    found = sorted(item.sha256 for item in list_artefacts(lock))
    files = (wheel.file, source.file, debs[0].file, debs[1].file)
    assert found == sorted(file.sha256 for file in files)


@pytest.mark.parametrize(("ending", "cached"), [("", False), (".copy", True)])
def test_a_link_in_the_place_of_an_unfinished_download_leads_nothing_elsewhere(
    tmp_path: Path, served: Served, store: Store, ending: str, cached: bool
) -> None:
    """A store that is handed over may have one."""
    wanted = artefact(served.give("/x", BODY), BODY, name="x-1-0.conda")
    cache = tmp_path / "cache"
    cache.mkdir()
    if cached:
        (cache / wanted.filename).write_bytes(BODY)
    outside = tmp_path / "outside"
    outside.write_text("own")
    link = store.root / "partial" / f"{wanted.sha256}.{machine_name()}{ending}"
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)
    assert fetch([wanted], store, Net(), caches=Caches(conda=(cache,))) == 1
    assert len(served.asked) == (not cached)
    assert store.blob(wanted.sha256).read_bytes() == BODY
    assert outside.read_text() == "own"
    assert unfinished(store) == []


@pytest.mark.parametrize(("kind", "ending"), [("server", ""), ("file", ""), ("cache", ".copy")])
def test_a_link_that_takes_the_place_of_an_unfinished_download_is_not_written_through(
    kind: str, ending: str, tmp_path: Path, served: Served, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The very moment: the path was looked at, and another member of a shared store puts a link there."""
    local, cache, outside = tmp_path / "x-1-0.conda", tmp_path / "cache", tmp_path / "outside"
    local.write_bytes(BODY)
    outside.write_text("own")
    cache.mkdir()
    if kind == "cache":
        (cache / local.name).write_bytes(BODY)
    wanted = artefact(local.as_uri() if kind == "file" else served.give("/x", BODY), BODY, name=local.name)
    honest = fetch_module._remove_unusable

    def look(path: Path, size: int) -> None:
        honest(path, size)
        if path.name == f"{wanted.sha256}.{machine_name()}{ending}":
            path.symlink_to(outside)

    monkeypatch.setattr(fetch_module, "_remove_unusable", look)
    if kind == "server":
        with pytest.raises(OSError, match="symbolic links") as caught:
            fetch([wanted], store, Net(), caches=Caches(conda=(cache,)))
        assert str(caught.value.filename).startswith(str(store.root / "partial"))
    else:
        assert fetch([wanted], store, Net(), caches=Caches(conda=(cache,))) == 1
        assert store.blob(wanted.sha256).read_bytes() == BODY
    assert outside.read_text() == "own"


@pytest.mark.parametrize("kind", ["pipe", "directory", "large", "largest"])
@pytest.mark.parametrize("ending", ["", ".copy"])
def test_an_unfinished_download_that_has_no_end_is_not_read(
    tmp_path: Path, served: Served, store: Store, ending: str, kind: str
) -> None:
    """A store that is handed over may have one."""
    wanted = artefact(served.give("/x", BODY), BODY, name="x-1-0.conda")
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / wanted.filename).write_bytes(BODY if ending else b"")
    part = store.root / "partial" / f"{wanted.sha256}.{machine_name()}{ending}"
    part.parent.mkdir(parents=True)
    if kind == "pipe":
        os.mkfifo(part)
    elif kind == "directory":
        (part / "x").mkdir(parents=True)
    else:
        part.touch()
        os.truncate(part, {"large": len(BODY) + 1, "largest": 8 << 40}[kind])
    assert fetch([wanted], store, Net(), caches=Caches(conda=(cache,))) == 1
    assert store.blob(wanted.sha256).read_bytes() == BODY
    assert unfinished(store) == []


def test_a_download_of_unknown_size_reads_no_more_than_its_maximum(served: Served, store: Store) -> None:
    wanted = msgspec.structs.replace(artefact(served.give("/x", BODY), BODY), size=0)
    part = store.root / "partial" / f"{wanted.sha256}.{machine_name()}"
    part.parent.mkdir(parents=True)
    part.touch()
    os.truncate(part, 8 << 40)
    assert fetch([wanted], store, Net()) == 1
    assert store.blob(wanted.sha256).read_bytes() == BODY


def test_a_blob_of_another_size_is_not_read_but_replaced(served: Served, store: Store) -> None:
    item = artefact(served.give("/x", BODY), BODY)
    blob = store.blob(item.sha256)
    blob.parent.mkdir(parents=True)
    blob.touch()
    os.truncate(blob, 8 << 40)
    with pytest.raises(FetchError, match="--offline forbids the network"):
        fetch([item], store, Net(offline=True))
    built = msgspec.structs.replace(item, url="")
    with pytest.raises(FetchError, match="is not in the store"):
        fetch([built], store, Net())
    assert fetch([item], store, Net()) == 1
    assert blob.read_bytes() == BODY


def test_a_lock_with_a_wrong_size_removes_no_blob(served: Served, store: Store) -> None:
    item = artefact(served.give("/x", BODY), BODY)
    fetch([item], store, Net())
    with pytest.raises(FetchError, match="bytes"):
        fetch([msgspec.structs.replace(item, size=len(BODY) - 1)], Store(store.root), Net())
    assert store.blob(item.sha256).read_bytes() == BODY
