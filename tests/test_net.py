"""The only HTTP client, against a real server: retries, resume, credentials, and what each failure says."""

from __future__ import annotations

import base64
import hashlib
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reprobuild import net as module
from reprobuild.errors import FetchError
from reprobuild.net import Net, NotFound, split_credentials
from tests.resolve.served import Reply, Served

BODY = bytes(range(256)) * 512
PASSWORD = "pa55/word"
LOGIN = "Basic " + base64.b64encode(f"alice:{PASSWORD}".encode()).decode()


@pytest.fixture
def served() -> Iterator[Served]:
    with Served() as server:
        yield server


@pytest.fixture
def other() -> Iterator[Served]:
    with Served() as server:
        yield server


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("NETRC", "/nonexistent/netrc")


def with_login(url: str) -> str:
    return url.replace("://", "://alice:pa55%2Fword@")


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    ("url", "clean", "login"),
    [
        ("https://example.org/simple", "https://example.org/simple", None),
        ("https://a:b%40c@example.org:8443/s?x=1", "https://example.org:8443/s?x=1", ("a", "b@c")),
        ("https://token@example.org/s", "https://example.org/s", ("token", "")),
        ("https://:only@example.org/s", "https://example.org/s", ("", "only")),
        ("http://a:b@[::1]:80/", "http://[::1]:80/", ("a", "b")),
        ("file:///a@b/c:d", "file:///a@b/c:d", None),
    ],
)
def test_credentials_are_split_from_an_address(url: str, clean: str, login: tuple[str, str] | None) -> None:
    assert split_credentials(url) == (clean, login)


def test_a_page_is_brought_with_its_type_and_final_address(served: Served) -> None:
    served.give("/new", Reply(b"{}", headers={"Content-Type": "application/x"}))
    old = served.give("/old", Reply(status=302, headers={"Location": "/new"}))
    page = Net().page(old, accept="application/x")
    assert (page.url, page.content_type, page.content) == (f"{served.url}/new", "application/x", b"{}")
    assert served.headers("Accept") == ["application/x", "application/x"]


def test_a_page_may_be_a_file_or_the_index_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "index.html").write_bytes(b"<a>")
    page = Net(offline=True).page((tmp_path / "a b").as_uri() + "/")
    assert page.content == b"<a>"
    assert page.url == (tmp_path / "a b" / "index.html").as_uri()
    with pytest.raises(NotFound, match=r"nothing/? cannot be read: No such file") as caught:
        Net().page((tmp_path / "nothing").as_uri())
    assert caught.value.hint == "check the index in pip's configuration"


@pytest.mark.parametrize("status", [404, 410])
def test_what_is_not_there_is_told_apart(served: Served, status: int) -> None:
    url = served.give("/x", Reply(status=status))
    with pytest.raises(NotFound, match=rf"{url} does not exist \(HTTP {status}\)") as caught:
        Net().page(url)
    assert caught.value.hint == "it may have been removed"


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_says_where_credentials_go(served: Served, status: int) -> None:
    url = served.give("/x", Reply(status=status))
    with pytest.raises(FetchError, match=rf"{url} refuses access \(HTTP {status}\)") as caught:
        Net().page(url)
    assert not isinstance(caught.value, NotFound)
    assert caught.value.hint == "put the credentials where pip finds them (its configuration, or ~/.netrc)"


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_server_that_stumbles_is_asked_again(served: Served, status: int) -> None:
    url = served.give("/x", Reply(status=status), b"well")
    assert Net().page(url).content == b"well"
    assert len(served.asked) == 2


def test_a_server_that_stays_down_is_given_up(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRIES", 1)
    url = served.give("/x", Reply(status=503))
    with pytest.raises(FetchError, match="answered HTTP 503") as caught:
        Net().page(url)
    assert caught.value.hint == "try again later"
    assert len(served.asked) == 2


def test_a_plain_refusal_is_not_asked_again(served: Served) -> None:
    with pytest.raises(FetchError, match="answered HTTP 418"):
        Net().page(served.give("/x", Reply(status=418)))
    assert len(served.asked) == 1


def test_nobody_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRIES", 0)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://alice:{PASSWORD.replace('/', '%2F')}@127.0.0.1:{unused.getsockname()[1]}/x"
        with pytest.raises(FetchError, match=r"cannot be reached: .*Connection refused") as caught:
            Net().page(url)
    assert "pa55" not in str(caught.value)
    assert "object at" not in str(caught.value)
    assert caught.value.hint == (
        "check the network and the proxy settings, or name another address with --service"
    )


def test_offline_asks_nobody_but_the_disk(served: Served, tmp_path: Path) -> None:
    url = served.give("/x", BODY)
    for attempt in (
        lambda: Net(offline=True).page(url),
        lambda: Net(offline=True).download(url, tmp_path / "p"),
    ):
        with pytest.raises(FetchError, match=f"{url} is needed, and --offline forbids the network") as caught:
            attempt()
        assert caught.value.hint == "run without --offline once"
    assert served.asked == []
    (tmp_path / "file").write_bytes(BODY)
    assert Net(offline=True).download((tmp_path / "file").as_uri(), tmp_path / "q") == sha256(BODY)


def test_credentials_are_for_one_host_alone(served: Served, other: Served) -> None:
    net = Net(credentials={served.host: ("alice", PASSWORD)})
    net.page(served.give("/x", Reply(b"in", login=f"alice:{PASSWORD}")))
    net.page(other.give("/x", b"open"))
    assert served.headers("Authorization") == [LOGIN]
    assert other.headers("Authorization") == [None]


def test_a_redirection_to_another_host_loses_the_credentials(served: Served, other: Served) -> None:
    target = other.give("/y", b"open")
    url = served.give("/x", Reply(status=302, headers={"Location": target}))
    page = Net(credentials={served.host: ("alice", PASSWORD)}).page(url)
    assert page.content == b"open"
    assert served.headers("Authorization") == [LOGIN]
    assert other.headers("Authorization") == [None]


def test_credentials_in_an_address_are_used_and_cut_out(served: Served, tmp_path: Path) -> None:
    url = with_login(served.give("/x", Reply(BODY, login=f"alice:{PASSWORD}")))
    assert Net().page(url).url == f"{served.url}/x"
    assert Net().download(url, tmp_path / "part") == sha256(BODY)
    assert served.headers("Authorization") == [LOGIN, LOGIN]


def test_credentials_of_netrc_are_used(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login alice password pa55/word\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    assert Net().page(served.give("/x", Reply(b"in", login=f"alice:{PASSWORD}"))).content == b"in"


@pytest.mark.parametrize("status", [401, 404, 418])
def test_no_error_tells_a_password(served: Served, status: int) -> None:
    url = with_login(served.give("/x", Reply(status=status)))
    with pytest.raises(FetchError) as caught:
        Net().page(url)
    with pytest.raises(FetchError) as offline:
        Net(offline=True).page(url)
    for err in (caught.value, offline.value):
        assert "pa55" not in str(err) + err.hint
        assert f"{served.url}/x" in str(err)


def test_a_download_is_whole_and_hashed(served: Served, tmp_path: Path) -> None:
    seen: list[int] = []
    part = tmp_path / "new" / "part"
    assert Net().download(served.give("/x", BODY), part, progress=seen.append) == sha256(BODY)
    assert part.read_bytes() == BODY
    assert sum(seen) == len(BODY)
    assert served.headers("Range") == [None]
    assert served.headers("Accept-Encoding") == ["identity"]


@pytest.mark.parametrize("ranges", [True, False])
def test_a_download_goes_on_where_it_stopped(served: Served, tmp_path: Path, ranges: bool) -> None:
    part = tmp_path / "part"
    part.write_bytes(BODY[:1000])
    assert Net().download(served.give("/x", Reply(BODY, ranges=ranges)), part) == sha256(BODY)
    assert part.read_bytes() == BODY
    assert served.headers("Range") == ["bytes=1000-"]


def test_a_finished_part_is_left_as_it_is(served: Served, tmp_path: Path) -> None:
    part = tmp_path / "part"
    part.write_bytes(BODY)
    assert Net().download(served.give("/x", BODY), part) == sha256(BODY)
    assert part.read_bytes() == BODY


def test_a_transfer_that_breaks_off_is_kept_and_completed(served: Served, tmp_path: Path) -> None:
    body = BODY * 20
    url = served.give("/x", Reply(body, cut=len(body) - 10), body)
    part = tmp_path / "part"
    with pytest.raises(FetchError, match=f"the download of {url} broke off: ") as caught:
        Net().download(url, part)
    assert caught.value.hint == "run the command again: it goes on where this one stopped"
    kept = part.read_bytes()
    assert kept == body[: len(kept)]
    assert len(kept) > len(body) - 10 - module.CHUNK
    assert Net().download(url, part) == sha256(body)
    assert part.read_bytes() == body
    assert served.headers("Range") == [None, f"bytes={len(kept)}-"]


def test_a_copy_from_the_disk_starts_anew_and_says_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(BODY)
    part = tmp_path / "part"
    part.write_bytes(b"something else")
    assert Net().download((tmp_path / "file").as_uri(), part) == sha256(BODY)
    assert part.read_bytes() == BODY
    with pytest.raises(NotFound, match="gone does not exist") as caught:
        Net().download((tmp_path / "gone").as_uri(), part)
    assert caught.value.hint == "it may have been removed"
    with pytest.raises(FetchError, match="cannot be copied: Is a directory") as folder:
        Net().download(tmp_path.as_uri(), part)
    assert folder.value.hint == "Is a directory"


def test_threads_may_share_it(served: Served) -> None:
    net = Net()
    urls = [served.give(f"/{n}", str(n).encode()) for n in range(40)]
    with ThreadPoolExecutor(8) as pool:
        assert [page.content for page in pool.map(net.page, urls)] == [str(n).encode() for n in range(40)]
