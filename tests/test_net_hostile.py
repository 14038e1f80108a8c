"""Answers of hostile servers: cookies, encodings, chunks behind an empty answer, and ways to this machine."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import threading
import time
from collections.abc import Iterator

import pytest
import requests

from reprobuild.ecosystems.oci_registry.logins import Logins
from reprobuild.errors import FetchError
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.download import _parse_range
from reprobuild.infra.http.model import NotFoundError
from reprobuild.infra.http.retry import RetryPolicy
from tests.resolve.served import Reply, Served

SESSION = {"Set-Cookie": "session=of-the-login; Path=/"}
MOST_CHUNKS = 100


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("NETRC", "/nonexistent/netrc")


def test_a_cookie_of_a_login_is_sent_to_no_server() -> None:
    """A jar knows no ports: another server of the host, and a redirection of its, would get it."""
    with Served() as private, Served() as foreign:
        page = private.give("/simple/tool/", Reply(b"x", headers=SESSION, login="alice:pw"))
        net = Net(credentials={f"{private.url}/simple": ("alice", "pw")}, gate=Logins({}, "https://hub.test"))
        net.page(page)
        net.page(page)
        net.page(foreign.give("/simple/other/", Reply(b"x")))
        private.give("/admin", Reply(b"x"))
        net.page(foreign.give("/led", Reply(status=302, headers={"Location": f"{private.url}/admin"})))
        token = "/token?service=s&scope=repository%3Ax%3Apull"
        private.give(token, Reply(json.dumps({"token": "t"}).encode()))
        challenge = {"WWW-Authenticate": f'Bearer realm="{private.url}/token",service="s"'}
        manifest = foreign.give("/v2/x/manifests/1", Reply(status=401, headers=challenge), Reply(b"{}"))
        net.page(manifest)
        assert set(private.headers("Cookie")) == set(foreign.headers("Cookie")) == {None}
        assert [path for path, _ in private.asked] == ["/simple/tool/", "/simple/tool/", "/admin", token]


@pytest.mark.parametrize(
    "encodings", ["gzip, gzip", "identity,GZIP", "aws-chunked, gzip", ", ".join(["gzip"] * 5)]
)
def test_content_with_several_encodings_is_refused(encodings: str) -> None:
    content = b"x"
    for _ in range(encodings.lower().count("gzip")):
        content = gzip.compress(content)
    with Served() as server:
        url = server.give("/x", Reply(content, headers={"Content-Encoding": encodings}))
        with pytest.raises(FetchError, match="answers with several content encodings") as caught:
            Net().page(url)
        assert "is broken; name another address with --service" in caught.value.hint
        assert len(server.asked) == 1  # no further try


def test_content_with_one_encoding_is_read() -> None:
    with Served() as server:
        url = server.give("/x", Reply(gzip.compress(b"text"), headers={"Content-Encoding": "gzip"}))
        assert Net().page(url).content == b"text"
        url = server.give("/y", Reply(b"text", headers={"Content-Encoding": "aws-chunked, identity"}))
        assert Net().page(url).content == b"text"


@contextlib.contextmanager
def endless(status: str) -> Iterator[tuple[str, list[int]]]:
    """Serve an answer of no length with chunks behind it; yield its address and the chunks of each connection."""
    sent: list[int] = []

    def serve(connection: socket.socket) -> None:
        number = len(sent)
        sent.append(0)
        with contextlib.suppress(OSError), connection:
            connection.recv(65536)
            connection.sendall(
                f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
            )
            while sent[number] < MOST_CHUNKS:
                connection.sendall(b"1\r\nx\r\n")
                sent[number] += 1
                time.sleep(0.02)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/x", sent


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_chunks_behind_an_empty_answer_are_not_read(method: str) -> None:
    net = Net(manners=RetryPolicy(tries=1))
    with endless("404 Not Found") as (url, sent):
        with pytest.raises(NotFoundError):
            net.page(url) if method == "GET" else net.send(method, url, good=(201,))
        assert len(sent) == 1
        assert sent[0] < MOST_CHUNKS
    with endless("201 Created") as (url, sent):
        assert net.send("PUT", url, good=(201,)).status == 201
        assert sent[0] < MOST_CHUNKS


@pytest.mark.parametrize("length", ["9" * 5000, "٣", "-1", "x"])
def test_an_odd_length_is_no_length(length: str) -> None:
    assert _parse_range(answer({"Content-Length": length})) == (0, None)
    assert _parse_range(answer({"Content-Range": f"bytes 0-1/{length}"}, 206)) == (-1, None)


def answer(headers: dict[str, str], status: int = 200) -> requests.Response:
    response = requests.Response()
    response.status_code = status
    response.headers.update(headers)
    return response


INNER = (
    "if this address is right, name it itself, as with --service NAME=URL, --index NAME=URL or pip's index-url; else "
    "name another server"
)
# Other spellings of this machine and its link.
HOSTS = [
    "127.0.0.1", "127.8.9.1", "localhost", "LOCALHOST.", "a.localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0",
    "[::]", "169.254.169.254", "[fe80::1]", "2130706433", "0x7f.1", "127.1", "u:p@127.0.0.1",
]  # fmt: skip


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A server that answers for each host name, as a proxy does."""
    with Served() as server:
        monkeypatch.setenv("http_proxy", server.url)
        yield server


@pytest.mark.parametrize("host", HOSTS)
def test_a_redirection_of_another_host_does_not_lead_to_this_machine(named: Served, host: str) -> None:
    url, shown = "http://index.test/simple/tool/", host.rpartition("@")[2]
    with Served() as inner:
        target = inner.give("/shutdown", b"done").replace("127.0.0.1", host)
        named.give("http://hop.test/x", Reply(status=302, headers={"Location": f"{target}?now=1"}))
        named.give(url, Reply(status=302, headers={"Location": "http://hop.test/x"}))
        with pytest.raises(FetchError) as caught:
            Net(manners=RetryPolicy(tries=1)).page(url)
        place = inner.url.replace("127.0.0.1", shown)
        assert str(caught.value) == (
            f"http://hop.test/x leads to {place}/shutdown, an address of this machine or of its link"
        )
        assert caught.value.hint == INNER
        assert inner.asked == []
    assert [path for path, _ in named.asked] == [url, "http://hop.test/x"]


def test_an_address_of_this_machine_that_the_user_names_is_requested(named: Served) -> None:
    """It may redirect to another port, as a local cache of an index does; names of a private network stay allowed."""
    with Served() as inner, Served() as cache:
        target = inner.give("/file", b"done")  # the hint of the refusal
        assert Net().page(target).content == b"done"
        led = cache.give("/led", Reply(status=302, headers={"Location": target}))
        assert Net().page(led).content == b"done"
    named.give("http://10.1.2.3/file", b"private")
    url = "http://index.test/led"
    named.give(url, Reply(status=302, headers={"Location": "http://10.1.2.3/file"}))
    assert Net().page(url).content == b"private"


@pytest.mark.parametrize("host", HOSTS[:-1])
def test_a_registry_names_no_token_server_on_this_machine(host: str) -> None:
    logins = Logins({"HOME": "/nonexistent"}, "https://hub.test")
    with pytest.raises(FetchError, match="an address of this machine or of its link") as caught:
        logins.answer(
            "https://registry.test/v2/a/manifests/1",
            f'Bearer realm="https://{host}/token",service="s"',
            Net(),
        )
    assert caught.value.hint == "the registry is misconfigured, or hostile: take the image from another one"
