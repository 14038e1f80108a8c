"""The only HTTP client, against a real server: retries, resume, credentials, and what each failure says."""

from __future__ import annotations

import base64
import contextlib
import datetime
import gzip
import hashlib
import os
import socket
import ssl
import subprocess
import threading
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

from reprobuild.errors import FetchError
from reprobuild.infra.http import client as module
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.credentials import login_for, origins
from reprobuild.infra.http.model import NotFoundError, UnreachedError, WrongSizeError, split_credentials
from reprobuild.infra.http.netrc import Netrc
from reprobuild.infra.http.redirects import Auth, NoRedirectSession, follow_redirects
from reprobuild.infra.http.retry import RetryableError, RetryPolicy, retry_after
from tests.resolve.served import Reply, Served

BODY = bytes(range(256)) * 512
PASSWORD = "pa55/word"
QUICK_TRIES = 4
QUICK = Net(manners=RetryPolicy(tries=QUICK_TRIES, pause=0.01))
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
    with pytest.raises(NotFoundError, match=r"nothing/? cannot be read: No such file") as caught:
        Net().page((tmp_path / "nothing").as_uri())
    assert caught.value.hint == "check the index in pip's configuration"


@pytest.mark.parametrize("status", [404, 410])
def test_what_is_not_there_is_told_apart(served: Served, status: int) -> None:
    url = served.give("/x", Reply(status=status))
    with pytest.raises(NotFoundError, match=rf"{url} does not exist \(HTTP {status}\)") as caught:
        Net().page(url)
    assert caught.value.hint == "it may have been removed"


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_says_where_credentials_go(served: Served, status: int) -> None:
    url = served.give("/x", Reply(status=status))
    with pytest.raises(FetchError, match=rf"{url} refuses access \(HTTP {status}\)") as caught:
        Net().page(url)
    assert not isinstance(caught.value, NotFoundError)
    assert caught.value.hint == "put the credentials where pip finds them (its configuration, or ~/.netrc)"


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_server_that_stumbles_is_asked_again(served: Served, status: int) -> None:
    url = served.give("/x", Reply(status=status), b"well")
    assert Net().page(url).content == b"well"
    assert len(served.asked) == 2


def test_a_server_that_stays_down_is_given_up(served: Served) -> None:
    url = served.give("/x", Reply(status=503))
    with pytest.raises(FetchError, match="answered HTTP 503") as caught:
        Net(manners=RetryPolicy(tries=2, pause=0)).page(url)
    assert caught.value.hint == "try again later"
    assert len(served.asked) == 2


def test_a_plain_refusal_is_not_asked_again(served: Served) -> None:
    with pytest.raises(FetchError, match="answered HTTP 418"):
        Net().page(served.give("/x", Reply(status=418)))
    assert len(served.asked) == 1


def test_nobody_there() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://alice:{PASSWORD.replace('/', '%2F')}@127.0.0.1:{unused.getsockname()[1]}/x"
        with pytest.raises(FetchError, match=r"cannot be reached: .*Connection refused") as caught:
            Net(manners=RetryPolicy(tries=1)).page(url)
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
    net = Net(credentials={served.url: ("alice", PASSWORD)})
    net.page(served.give("/x", Reply(b"in", login=f"alice:{PASSWORD}")))
    net.page(other.give("/x", b"open"))
    assert served.headers("Authorization") == [LOGIN]
    assert other.headers("Authorization") == [None]


def test_a_redirection_to_another_host_loses_the_credentials(served: Served, other: Served) -> None:
    target = other.give("/y", b"open")
    url = served.give("/x", Reply(status=302, headers={"Location": target}))
    page = Net(credentials={served.url: ("alice", PASSWORD)}).page(url)
    assert page.content == b"open"
    assert served.headers("Authorization") == [LOGIN]
    assert other.headers("Authorization") == [None]


def test_credentials_in_an_address_are_used_and_cut_out(served: Served, tmp_path: Path) -> None:
    url = with_login(served.give("/x", Reply(BODY, login=f"alice:{PASSWORD}")))
    assert Net().page(url).url == f"{served.url}/x"
    assert Net().download(url, tmp_path / "part") == sha256(BODY)
    assert served.headers("Authorization") == [LOGIN, LOGIN]


def test_a_password_may_have_any_characters(served: Served, other: Served) -> None:
    password = "p\u00e4\u4e2d:\u20ac"
    target = other.give("/y", b"open")
    url = served.give(
        "/x", Reply(b"in", login=f"alice:{password}"), Reply(status=302, headers={"Location": target})
    )
    net = Net(credentials={served.url: ("alice", password)})
    assert [net.page(url).content for _ in range(2)] == [b"in", b"open"]
    assert other.headers("Authorization") == [None]


def test_credentials_of_netrc_are_used(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login alice password pa55/word\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    net = Net(configured=[f"{served.url}/simple", "http://127.0.0.1:{port}/"], netrc=Netrc(os.environ))
    assert net.page(served.give("/x", Reply(b"in", login=f"alice:{PASSWORD}"))).content == b"in"


def test_netrc_is_not_read_for_an_address_of_http_that_nobody_configured(
    served: Served, other: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """netrc knows no schemes and no ports: a link to http on the same host would show the login on the way."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login alice password pa55/word\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    net = Net(configured=[other.url.replace("http", "https"), served.url], netrc=Netrc(os.environ))
    net.page(other.give("/link", b"open"))
    net.page(served.give("/x", Reply(status=302, headers={"Location": f"{other.url}/link"})))
    net.download(other.give("/file", BODY), tmp_path / "part")
    assert other.headers("Authorization") == [None, None, None]
    assert served.headers("Authorization") == [LOGIN]
    net.learn({}, configured=[f"{other.url}/simple"])
    net.page(f"{other.url}/link")
    assert other.headers("Authorization")[3:] == [LOGIN]


ENTRIES = """
machine own.test login alice password pa55/word
machine default.test login bob password word
default login carol password everywhere
"""


@pytest.mark.parametrize(
    ("url", "led", "user"),
    [
        ("https://own.test/x", False, "alice"), ("https://own.test:443/x", False, "alice"),
        ("https://OWN.test/x", False, "alice"), ("https://own.test:8443/x", False, None),
        ("http://own.test/x", False, None), ("http://own.test:443/x", False, None),
        ("https://own.test/x", True, None), ("https://hostile.test/x", False, None),
        ("https://hostile.test/x", True, None), ("https://default/x", False, None),
        ("https://index.test:8443/x", False, "carol"), ("https://index.test:8443/x", True, "carol"),
        ("https://index.test/x", False, None), ("http://plain.test/x", True, "carol"),
    ],
)  # fmt: skip
def test_an_entry_of_netrc_is_for_its_own_host_and_for_what_is_configured(
    url: str, led: bool, user: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text(ENTRIES)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    configured = set(origins(["https://index.test:8443/simple", "http://plain.test/"]))
    login = Netrc(os.environ).login(url, configured=configured, led=led)
    assert (login[0] if login else None) == user


def test_netrc_is_the_file_at_home_and_a_broken_one_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NETRC")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Netrc(os.environ).login("https://own.test/", configured=(), led=False) is None
    (tmp_path / "_netrc").write_text("machine own.test login old password x\n")
    assert Netrc(os.environ).login("https://own.test/", configured=(), led=False) == ("old", "x")
    (tmp_path / ".netrc").write_text(ENTRIES)
    assert Netrc(os.environ).login("https://own.test/", configured=(), led=False) == ("alice", PASSWORD)
    (tmp_path / ".netrc").write_text("nothing of netrc\n")
    assert Netrc(os.environ).login("https://own.test/", configured=(), led=False) is None


class Secure(Served):
    """A server of https, with a certificate of its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.certificate = folder / "certificate.pem"
        words = [
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
        ]
        words += ["-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"]
        more = ["-keyout", str(folder / "key.pem"), "-out", str(self.certificate)]
        subprocess.run(["openssl", *words, *more], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, folder / "key.pem")
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://{self.host}"


@pytest.fixture
def secure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Secure]:
    with Secure(tmp_path) as server:
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(server.certificate))
        yield server


def test_the_default_of_netrc_goes_to_no_host_that_others_name(
    secure: Secure, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By https, too, and where a redirection leads."""
    (tmp_path / "netrc").write_text("default login alice password pa55/word\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    secure.give("/x", b"open")
    net = Net(netrc=Netrc(os.environ))
    net.page(f"{secure.url}/x")
    net.page(served.give("/led", Reply(status=302, headers={"Location": f"{secure.url}/x"})))
    assert secure.headers("Authorization") == [None, None]
    net.learn({}, configured=[f"{secure.url}/simple"])
    net.page(f"{secure.url}/x")
    net.page(f"{served.url}/led")
    assert secure.headers("Authorization")[2:] == [LOGIN, LOGIN]
    assert served.headers("Authorization") == [None, None]


def test_the_authorities_are_read_once_for_all_threads(
    secure: Secure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secure.give("/x", b"open")
    files: list[str] = []
    read = ssl.SSLContext.load_verify_locations
    monkeypatch.setattr(
        ssl.SSLContext,
        "load_verify_locations",
        lambda own, *words: files.append(words[0]) or read(own, *words),
    )
    net = Net(manners=RetryPolicy(tries=1))
    threads = [threading.Thread(target=net.page, args=(f"{secure.url}/x",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(secure.asked) == 8
    assert files == [str(secure.certificate)]


def test_a_server_of_another_authority_is_refused(
    secure: Secure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in a client that trusts it no longer, and by another name."""
    secure.give("/x", b"open")
    net = Net(manners=RetryPolicy(tries=1))
    assert net.page(f"{secure.url}/x").content == b"open"
    with pytest.raises(UnreachedError, match="match"):
        net.page(f"{secure.url.replace('127.0.0.1', 'localhost')}/x")
    (tmp_path / "other").mkdir()
    with Secure(tmp_path / "other") as other:
        other.give("/x", b"open")
        with pytest.raises(UnreachedError, match="certificate verify failed"):
            net.page(f"{other.url}/x")
        secure.certificate.write_bytes(other.certificate.read_bytes())  # the same path, with another content
        with pytest.raises(UnreachedError, match="certificate verify failed"):
            Net(manners=RetryPolicy(tries=1)).page(f"{secure.url}/x")


def test_a_file_without_authorities_is_an_error(
    secure: Secure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "none.pem").write_text("no certificate\n")
    for name in ("none.pem", "missing.pem"):
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / name))
        with pytest.raises((FetchError, OSError)):
            Net(manners=RetryPolicy(tries=1)).page(f"{secure.url}/x")
    assert secure.asked == []


@pytest.mark.parametrize(
    ("url", "user"),
    [
        ("https://h.test/simple/x/", "list"), ("https://H.test:443/simple/x/", "list"),
        ("https://h.test/files/x.whl", "list"), ("https://h.test/simple-other/x", "list"),
        ("https://h.test/simple/deep/x", "deep"), ("http://h.test/simple/x/", None),
        ("https://h.test:8443/simple/x/", None), ("http://h.test:443/simple/x/", None),
        ("http://plain.test/x", "plain"), ("http://plain.test:80/x", "plain"), ("https://plain.test/x", None),
        ("https://other.test/simple/x/", None), ("https://top.test/x", "top"),
    ],
)  # fmt: skip
def test_a_login_is_for_its_scheme_host_and_port_alone(url: str, user: str | None) -> None:
    known = {
        "https://h.test/simple": ("list", "1"), "https://h.test/simple/deep": ("deep", "2"),
        "http://plain.test/simple": ("plain", "3"), "https://top.test": ("top", "4"),
    }  # fmt: skip
    found = login_for(url, known)
    assert (found and found[0]) == user


def test_what_is_asked_with_the_token_of_the_nearest_address(served: Served) -> None:
    net = Net()
    net.learn({}, {served.url: f"{served.url}/t/one", f"{served.url}/lab": f"{served.url}/t/two/lab"})
    served.give("/t/one/main/x", b"1")
    served.give("/t/two/lab/x", b"2")
    assert [net.page(f"{served.url}/{path}").content for path in ("main/x", "lab/x")] == [b"1", b"2"]


@pytest.mark.parametrize(
    "target", ["/t/SECRET1/ch/gone", "/x?sig=SECRET1", "/t/SECRET2/x", "ftp://h/t/SECRET2/x"]
)
def test_no_error_tells_a_token_that_a_redirection_shows(served: Served, target: str) -> None:
    net = Net()
    net.learn({}, {f"{served.url}/ch": f"{served.url}/t/SECRET1/ch"})
    served.give("/t/SECRET1/ch/x", Reply(status=302, headers={"Location": target}))
    with pytest.raises(FetchError, match=rf"{served.url}/ch/x") as caught:
        net.page(f"{served.url}/ch/x")
    assert "SECRET" not in str(caught.value) + caught.value.hint


def test_a_login_is_for_no_other_port(served: Served, other: Served) -> None:
    net = Net(credentials={f"{served.url}/simple": ("alice", PASSWORD)})
    net.page(other.give("/simple/x/", b"open"))
    with pytest.raises(FetchError, match="refuses access"):
        net.page(other.give("/file", Reply(b"in", login=f"alice:{PASSWORD}")))
    assert other.headers("Authorization") == [None, None]


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


@pytest.mark.parametrize("size", [0, len(BODY) * 20])
def test_a_transfer_that_breaks_off_is_completed(served: Served, tmp_path: Path, size: int) -> None:
    body = BODY * 20
    cuts = [1_000_000, 1_000_001, len(body) - 10]
    url = served.give(
        "/x", Reply(body, cut=cuts[0]), Reply(body, cut=1), Reply(body, cut=cuts[2] - cuts[1]), body
    )
    part = tmp_path / "part"
    assert QUICK.download(url, part, size=size) == sha256(body)
    assert part.read_bytes() == body
    assert served.headers("Range") == [None, *(f"bytes={cut}-" for cut in cuts)]


def test_a_transfer_that_never_gets_on_is_kept_for_the_next_run(served: Served, tmp_path: Path) -> None:
    url, part = served.give("/x", Reply(BODY, cut=1000), Reply(BODY, cut=0)), tmp_path / "part"
    with pytest.raises(FetchError, match=f"the download of {url} broke off after 1000 bytes: ") as caught:
        QUICK.download(url, part)
    assert caught.value.hint == "run the command again: it goes on where this one stopped"
    assert part.read_bytes() == BODY[:1000]
    assert len(served.asked) == QUICK_TRIES
    served.give("/x", BODY)
    assert QUICK.download(url, part) == sha256(BODY)


def test_a_server_that_starts_anew_each_time_is_given_up(served: Served, tmp_path: Path) -> None:
    body = BODY * 8
    url = served.give("/x", Reply(body, cut=len(body) // 2, ranges=False))
    with pytest.raises(FetchError, match="broke off"):
        QUICK.download(url, tmp_path / "part")
    assert len(served.asked) == QUICK_TRIES


def test_a_file_that_is_replaced_meanwhile_is_not_spliced(served: Served, tmp_path: Path) -> None:
    old = Reply(BODY, cut=1000, headers={"ETag": '"1"'})
    url = served.give("/x", old, Reply(BODY[::-1], headers={"ETag": '"2"'}))
    assert QUICK.download(url, tmp_path / "part") == sha256(BODY[::-1])
    assert served.headers("If-Range") == [None, '"1"']


@pytest.mark.parametrize("given", ["bytes 7-99/100", "bytes seven", ""])
def test_a_part_that_was_not_asked_for_is_not_taken(served: Served, tmp_path: Path, given: str) -> None:
    part = tmp_path / "part"
    part.write_bytes(BODY[:10])
    strange = Reply(b"x" * 93, status=206, headers={"Content-Range": given})
    assert QUICK.download(served.give("/x", strange, BODY), part) == sha256(BODY)
    assert served.headers("Range") == ["bytes=10-", None]


@pytest.mark.parametrize(("served_size", "expected"), [(200, 100), (100, 200)])
def test_a_file_of_another_size_is_not_brought(
    served: Served, tmp_path: Path, served_size: int, expected: int
) -> None:
    url = served.give("/x", BODY[:served_size])
    with pytest.raises(
        WrongSizeError, match=f"{url} has {served_size} bytes, and {expected} are expected"
    ) as caught:
        QUICK.download(url, tmp_path / "part", size=expected)
    assert (
        caught.value.hint == "another file stands there now; find the one that was locked, or make a new lock"
    )
    assert not (tmp_path / "part").exists() or not (tmp_path / "part").read_bytes()


def test_a_file_without_an_end_is_left(served: Served, tmp_path: Path) -> None:
    url = served.give("/x", Reply(b"x" * 100_000, endless=True))
    with pytest.raises(WrongSizeError, match=f"{url} gives more than 250000 bytes"):
        QUICK.download(url, tmp_path / "part", size=250_000)
    with pytest.raises(WrongSizeError, match=f"{url} gives more than 300000 bytes"):
        Net(manners=RetryPolicy(file=300_000)).download(url, tmp_path / "other")
    assert (tmp_path / "part").stat().st_size < 250_000 + module.CHUNK


def test_what_is_longer_than_the_file_is_no_part_of_it(served: Served, tmp_path: Path) -> None:
    part = tmp_path / "part"
    part.write_bytes(BODY + b"!")
    assert QUICK.download(served.give("/x", BODY), part, size=len(BODY)) == sha256(BODY)
    assert part.read_bytes() == BODY
    assert QUICK.download(served.give("/y", b""), part, size=len(BODY)) == sha256(BODY)
    assert [path for path, _ in served.asked] == ["/x"]


def test_what_is_called_compressed_stays_as_the_server_keeps_it(served: Served, tmp_path: Path) -> None:
    packed = gzip.compress(BODY)
    url = served.give("/x.tar.gz", Reply(packed, headers={"Content-Encoding": "gzip"}))
    assert QUICK.download(url, tmp_path / "part") == sha256(packed)
    assert QUICK.page(url).content == BODY


def test_a_page_has_an_end(served: Served) -> None:
    small = Net(manners=RetryPolicy(page=1_000_000))
    url = served.give("/x", Reply(b"x" * 100_000, endless=True))
    with pytest.raises(FetchError, match=f"{url} gives more than 1000000 bytes") as caught:
        small.page(url)
    assert caught.value.hint == "it may be hostile, or no index at all; name another address with --service"
    bomb = Reply(gzip.compress(bytes(50_000_000)), headers={"Content-Encoding": "gzip"})
    tracemalloc.start()
    with pytest.raises(FetchError, match="gives more than 1000000 bytes"):
        small.page(served.give("/bomb", bomb))
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()
    with pytest.raises(FetchError, match=f"{url} gives no end in 0 s"):
        Net(manners=RetryPolicy(page_time=0.0)).page(url)


def test_a_page_that_breaks_off_is_asked_for_again(served: Served) -> None:
    assert QUICK.page(served.give("/x", Reply(BODY, cut=1000), BODY)).content == BODY
    url = served.give("/y", Reply(BODY, cut=1000))
    with pytest.raises(FetchError, match=f"{url} broke off: ") as caught:
        QUICK.page(url)
    assert "name another address with --service" in caught.value.hint


def test_a_server_that_says_nothing_is_left(served: Served, tmp_path: Path) -> None:
    net = Net(manners=RetryPolicy(read=0.2, tries=2, pause=0))
    url = served.give("/x", Reply(BODY, silent=1))
    with pytest.raises(FetchError, match=f"{url} cannot be reached: .*timed out"):
        net.page(url)
    assert len(served.asked) == 2
    drips = served.give("/y", Reply(b"x" * 40, pause=0.15))
    with pytest.raises(FetchError, match=r"broke off after \d+ of 40 bytes: \d+ bytes came in 0 s"):
        net.download(drips, tmp_path / "part", size=40)


def test_a_server_is_given_the_time_that_it_asks_for(served: Served) -> None:
    url = served.give("/x", Reply(status=429, headers={"Retry-After": "1"}), b"well")
    other = served.give("/other", b"too")
    net, begun = Net(manners=RetryPolicy(pause=0)), time.monotonic()
    assert net.page(url).content == b"well"
    assert time.monotonic() - begun >= 1
    served.give("/x", Reply(status=503, headers={"Retry-After": "7200"}))
    with pytest.raises(FetchError, match=f"{url} answered HTTP 503, and asks to wait for 7200 s") as caught:
        net.page(url)
    assert caught.value.hint == "run the command again after that time; what is there by then is kept"
    assert net.page(other).content == b"too"


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120), (" 0 ", 0), (None, None), ("", None), ("soon", None), ("-5", None), ("٣", None),
        ("9" * 5000, 999999999999), ("Sun, 22 Nov 2026 12:00:30 GMT", 30), ("Sun, 22 Nov 2026 11:00:00 GMT", 0),
        ("Sun, 22 Nov 99999999999 12:00:00 GMT", None),
    ],
)  # fmt: skip
def test_how_long_a_server_asks_to_wait(value: str | None, seconds: float | None) -> None:
    now = datetime.datetime(2026, 11, 22, 12, tzinfo=datetime.timezone.utc)
    assert retry_after(value, now) == seconds


def test_requests_to_one_host_keep_their_distance(served: Served, other: Served) -> None:
    urls = [served.give(f"/{n}", b"x") for n in range(4)]
    net = Net(distances={served.host: 0.2})
    begun = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(net.page, [*urls, *(other.give(f"/{n}", b"x") for n in range(4))]))
    assert time.monotonic() - begun >= 0.6
    begun = time.monotonic()
    Net(distances={"127.0.0.1": 0.3}).page(urls[0])
    named = Net(distances={"127.0.0.1": 0.3})
    named.page(urls[0])
    named.page(urls[1])
    assert time.monotonic() - begun >= 0.3


def test_a_redirection_in_a_loop(served: Served, tmp_path: Path) -> None:
    url = served.give("/x", Reply(status=302, headers={"Location": "/y"}))
    served.give("/y", Reply(status=302, headers={"Location": "/x"}))
    for attempt in (lambda: QUICK.page(url), lambda: QUICK.download(url, tmp_path / "part")):
        with pytest.raises(FetchError, match=f"{url} redirects in a loop") as caught:
            attempt()
        assert caught.value.hint == (
            "the server's set-up is broken, or it wants a login that it cannot see; try the address in a browser"
        )
    assert len(served.asked) == 2 * (module.REDIRECTIONS + 1)


@pytest.mark.parametrize("target", ["http://[::1", "file:///etc/passwd", "ftp://x/", "http://a:x/"])
def test_a_redirection_to_no_address(served: Served, target: str) -> None:
    url = served.give("/x", Reply(status=302, headers={"Location": target}))
    with pytest.raises(FetchError, match=f"{url} cannot be reached: "):
        Net(manners=RetryPolicy(tries=1)).page(url)


@pytest.mark.parametrize("url", ["http://u:secret@[::1/", "http://u:secret@host:port/"])
def test_what_is_no_address(url: str, tmp_path: Path) -> None:
    for attempt in (lambda: QUICK.page(url), lambda: QUICK.download(url, tmp_path / "part")):
        with pytest.raises(FetchError, match="is no address: ") as caught:
            attempt()
        assert "secret" not in str(caught.value)
        assert caught.value.hint == "the index or the lock names it"


def test_a_failure_behind_a_redirection_names_both_without_what_is_secret(
    served: Served, other: Served
) -> None:
    other.give("/signed?sig=s3cret", Reply(status=404))
    target = other.url.replace("://", "://u:pa55word@") + "/signed?sig=s3cret"
    url = served.give("/x", Reply(status=302, headers={"Location": target}))
    with pytest.raises(NotFoundError) as caught:
        QUICK.page(url)
    assert str(caught.value) == f"{url} (which leads to {other.url}/signed) does not exist (HTTP 404)"
    other.give("/signed?sig=s3cret", b"page")
    assert "pa55word" not in QUICK.page(url).url


def test_a_copy_from_the_disk_starts_anew_and_says_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(BODY)
    part = tmp_path / "part"
    part.write_bytes(b"something else")
    assert Net().download((tmp_path / "file").as_uri(), part) == sha256(BODY)
    assert part.read_bytes() == BODY
    with pytest.raises(NotFoundError, match="gone does not exist") as caught:
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


def test_the_words_of_a_redirection_are_not_read(served: Served) -> None:
    served.give("/end", b"ok")
    url = served.give("/x", Reply(b"x" * 1_000_000, status=302, headers={"Location": "/end"}, endless=True))
    assert QUICK.page(url).content == b"ok"


def test_no_login_goes_from_https_to_http_or_beyond(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither ours nor that of netrc, which knows hosts but no ports; nor when it leads back."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login alice password pa55/word\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))

    def ask(url: str, auth: Auth) -> requests.Response:
        """Let the server, which has no certificate, stand for one that has."""
        plain = url.replace("https://localhost", served.url)
        return NoRedirectSession().get(plain, auth=auth, stream=True, allow_redirects=False, timeout=10)

    served.give("/x", Reply(status=302, headers={"Location": f"{served.url}/low"}))
    served.give("/low", Reply(status=302, headers={"Location": "https://localhost/again"}))
    served.give("/again", b"ok")
    assert follow_redirects(ask, "https://localhost/x", ("alice", PASSWORD)).content == b"ok"
    assert served.headers("Authorization") == [LOGIN, None, None]
    follow_redirects(ask, f"{served.url}/low", None).close()
    assert served.headers("Authorization")[3:] == [LOGIN, LOGIN], (
        "netrc is left to `ask` where nothing was lowered"
    )


def test_a_login_goes_along_at_one_place_alone(served: Served, other: Served) -> None:
    other.give("/end", b"ok")
    served.give("/y", Reply(status=302, headers={"Location": f"{other.url}/end"}))
    url = served.give("/x", Reply(status=302, headers={"Location": "y"}))
    QUICK.page(with_login(url))
    assert served.headers("Authorization") == [LOGIN, LOGIN]
    assert other.headers("Authorization") == [None]


def test_the_pace_of_the_host_that_it_leads_to(served: Served, other: Served) -> None:
    other.give("/end", b"ok")
    url = served.give("/x", Reply(status=302, headers={"Location": f"{other.url}/end"}))
    net, begun = Net(distances={other.host: 0.3}), time.monotonic()
    net.page(url)
    net.page(url)
    assert time.monotonic() - begun >= 0.3


@pytest.mark.parametrize("status", [201, 204, 206, 302, 304, 416])
def test_what_answers_nothing_that_was_asked(served: Served, tmp_path: Path, status: int) -> None:
    url = served.give("/x", Reply(b"" if status in (204, 304) else b"abc", status=status))
    for attempt in (lambda: QUICK.page(url), lambda: QUICK.download(url, tmp_path / "part")):
        with pytest.raises(
            FetchError, match=f"{url} answered HTTP {status}, which answers nothing"
        ) as caught:
            attempt()
        assert caught.value.hint == (
            "the server, or a proxy before it, is broken; name another address with --service"
        )
    assert len(served.asked) == 2
    assert not (tmp_path / "part").exists()


@pytest.mark.parametrize("asked", ["0", "Sun, 22 Nov 2020 11:00:00 GMT"])
def test_a_server_that_asks_for_no_pause_gets_one(served: Served, asked: str) -> None:
    url = served.give("/x", Reply(status=429, headers={"Retry-After": asked}))
    begun = time.monotonic()
    with pytest.raises(FetchError, match="answered HTTP 429"):
        Net(manners=RetryPolicy(tries=4, pause=0.1)).page(url)
    assert time.monotonic() - begun >= 0.1 + 0.2 + 0.4


def test_the_pause_is_that_of_the_host_whatever_the_login(served: Served, other: Served) -> None:
    busy = Reply(status=429, headers={"Retry-After": "1"})
    net, begun = Net(manners=RetryPolicy(pause=0)), time.monotonic()
    net.page(with_login(served.give("/x", busy, b"well")))
    assert time.monotonic() - begun >= 1
    other.give("/end", busy, b"well")
    url, begun = (
        served.give("/y", Reply(status=302, headers={"Location": f"{other.url}/end"})),
        time.monotonic(),
    )
    net.page(url)
    assert time.monotonic() - begun >= 1


def dripping(end: socket.socket, head: bytes, every: float) -> None:
    """Answer each connection with these words, and then one byte of a header after the other."""

    def one(connected: socket.socket) -> None:
        with connected, contextlib.suppress(OSError):
            connected.recv(1 << 16)
            connected.sendall(head)
            while True:
                connected.sendall(b"a")
                time.sleep(every)

    with contextlib.suppress(OSError):
        while True:
            threading.Thread(target=one, args=(end.accept()[0],), daemon=True).start()


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nX-A: "])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_headers_that_never_end_are_left(head: bytes, scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as end:
        # Where TLS is spoken, these words are none of it, and are refused at once but for a handshake's.
        head = head if scheme == "http" else b"\x16\x03\x03\x3f\xff\x02\x00\x3f\xfb"
        threading.Thread(target=dripping, args=(end, head, 0.1), daemon=True).start()
        net, begun = Net(manners=RetryPolicy(connect=0.5, read=0.5, tries=2, pause=0)), time.monotonic()
        with pytest.raises(FetchError, match="cannot be reached: ") as caught:
            net.page(f"{scheme}://127.0.0.1:{end.getsockname()[1]}/x")
        if scheme == "http":
            assert "no whole answer began in 1 s" in str(caught.value)
        assert time.monotonic() - begun < 8


HEADS = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
CHUNKED = HEADS + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "head",
    [
        HEADS + b"Content-Encoding: gzip\r\n\r\n\x1f\x8b\x08\x08" + bytes(6),  # a name in the header of gzip
        CHUNKED + b"2\r\n{}\r\n0\r\nX: ",  # a trailer
        CHUNKED + b"2;",  # the length of a chunk
    ],
    ids=["gzip", "trailer", "length"],
)
def test_bytes_beside_the_content_that_never_end_are_left(head: bytes) -> None:
    """Each byte ends a wait for the socket, and none of them is of the content."""
    with socket.create_server(("127.0.0.1", 0)) as end:
        threading.Thread(target=dripping, args=(end, head, 0.1), daemon=True).start()
        net, begun = Net(manners=RetryPolicy(connect=0.5, read=0.5, tries=2, pause=0)), time.monotonic()
        with pytest.raises(FetchError, match="broke off: no byte of the content came in 1 s"):
            net.page(f"http://127.0.0.1:{end.getsockname()[1]}/x")
        assert time.monotonic() - begun < 10


def test_a_file_that_comes_next_to_never_is_left(served: Served, tmp_path: Path) -> None:
    url = served.give("/x", Reply(b"x" * 40_000, pause=0.15))
    net = Net(manners=RetryPolicy(read=0.3, tries=1))
    with pytest.raises(FetchError, match=r"broke off after \d+ of 40000 bytes: \d+ bytes came in 0 s"):
        net.download(url, tmp_path / "part", size=40_000)
    assert len(net.page(url).content) == 40_000


def test_what_stands_on_the_disk_has_limits_too(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(BODY)
    os.mkfifo(tmp_path / "pipe")
    for place in ((tmp_path / "pipe").as_uri(), "file:///dev/zero"):
        with pytest.raises(FetchError, match="cannot be copied: it is no plain file"):
            QUICK.download(place, tmp_path / "part", size=3)
        with pytest.raises(NotFoundError, match="cannot be read: it is no plain file"):
            QUICK.page(place)
    with pytest.raises(WrongSizeError, match=f"has {len(BODY)} bytes, and 3 are expected"):
        QUICK.download((tmp_path / "file").as_uri(), tmp_path / "part", size=3)
    with pytest.raises(NotFoundError, match="it has more than 10 bytes"):
        Net(manners=RetryPolicy(page=10)).page((tmp_path / "file").as_uri())


def test_a_server_that_always_asks_to_wait_is_given_up() -> None:
    """Also if each try brings some bytes: a large file would take days."""
    tries = []

    def once() -> str:
        tries.append(1)
        raise RetryableError(FetchError("not yet", hint=""), wait=0.01, moved=True)

    with pytest.raises(FetchError, match="not yet, and asks to wait for") as caught:
        Net(manners=RetryPolicy(longest=0.01, pause=0)).patiently("http://host.example/x", once)
    assert caught.value.hint == "run the command again after that time; what is there by then is kept"
    assert len(tries) == 11
