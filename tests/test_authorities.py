"""The certificates of a site's authority: every way that requests, OpenSSL and pip have to name them."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprobuild.config.services import Service
from reprobuild.context import open_client
from reprobuild.doctor.services import probe
from reprobuild.errors import FetchError
from reprobuild.infra.http.authorities import Authorities
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.model import DistrustedError, UnreachedError
from tests.test_net import Secure

HINT = (
    "the authority of this certificate is not trusted: set REQUESTS_CA_BUNDLE=FILE, or `cert` of pip.conf "
    "(`pip config set global.cert FILE`), to your site's certificates"
)


@pytest.fixture
def secure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Secure]:
    """A server whose authority is that of a site alone."""
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR", "PIP_CERT"):
        monkeypatch.delenv(name, raising=False)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1,localhost")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    with Secure(tmp_path) as server:
        server.give("/x", b"open")
        yield server


def hash_directory(certificate: Path, directory: Path) -> Path:
    """Make a directory as OpenSSL looks certificates up in."""
    words = ["openssl", "x509", "-hash", "-noout", "-in", str(certificate)]
    name = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
    directory.mkdir()
    shutil.copy(certificate, directory / f"{name}.0")
    return directory


def refusal(url: str) -> FetchError:
    with pytest.raises(FetchError) as caught:
        open_client(os.environ).page(url)
    return caught.value


def test_the_hint_for_an_unknown_authority_names_the_variable(secure: Secure) -> None:
    error = refusal(f"{secure.url}/x")
    assert isinstance(error, DistrustedError)
    assert (error.hint, "certificate verify failed" in str(error)) == (HINT, True)


def test_the_hint_for_another_name_does_not(secure: Secure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(secure.certificate))
    error = refusal(f"{secure.url.replace('127.0.0.1', 'localhost')}/x")
    assert error.hint == (
        "check the address and the clock of this machine, or name another address with --service"
    )


@pytest.mark.parametrize("name", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "PIP_CERT"])
def test_a_variable_names_the_authority(name: str, secure: Secure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, str(secure.certificate))
    assert open_client(os.environ).page(f"{secure.url}/x").content == b"open"


def test_directories_are_searched(secure: Secure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = hash_directory(secure.certificate, tmp_path / "hashed")
    monkeypatch.setenv("SSL_CERT_DIR", f"{tmp_path / 'missing'}:{directory}")
    assert open_client(os.environ).page(f"{secure.url}/x").content == b"open"


@pytest.mark.parametrize("section", ["global", "install"])
def test_pips_file_names_the_authority(section: str, secure: Secure, tmp_path: Path) -> None:
    """Also in a path with a blank, and beside an unrelated SSL_CERT_FILE as conda sets it."""
    (tmp_path / "the site").mkdir()
    path = shutil.copy(secure.certificate, tmp_path / "the site" / "ca.pem")
    (tmp_path / "pip.conf").write_text(f"[{section}]\ncert = {path}\n")
    client = open_client({**os.environ, "SSL_CERT_FILE": str(tmp_path / "missing.pem")})
    assert client.page(f"{secure.url}/x").content == b"open"
    assert client.page(f"{secure.url}/x").content == b"open"


def test_pip_is_asked_once_and_only_after_a_refusal(secure: Secure) -> None:
    asked: list[str] = []

    def ask() -> str:
        asked.append("pip")
        return str(secure.certificate)

    trusting = Net(authorities=Authorities({"SSL_CERT_FILE": str(secure.certificate)}, ask))
    trusting.page(f"{secure.url}/x")
    assert asked == []
    client = Net(authorities=Authorities({}, ask))
    threads = [threading.Thread(target=client.page, args=(f"{secure.url}/x",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert asked == ["pip"]
    assert len(secure.asked) == 5


def test_the_bundle_of_requests_replaces_the_others(
    secure: Secure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    with Secure(tmp_path / "other") as other:
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(other.certificate))
        for name in ("SSL_CERT_FILE", "PIP_CERT"):
            monkeypatch.setenv(name, str(secure.certificate))
        assert refusal(f"{secure.url}/x").hint == HINT


def test_a_missing_file_of_pip_is_named(
    secure: Secure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_CERT", str(tmp_path / "missing.pem"))
    error = refusal(f"{secure.url}/x")
    assert str(error) == f"pip's setting `cert` names {tmp_path / 'missing.pem'}, which cannot be read"
    assert error.hint == (
        "name a readable file: `pip config set global.cert FILE`, or set REQUESTS_CA_BUNDLE=FILE"
    )


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "PIP_CERT"])
def test_a_file_without_certificates_is_named(
    name: str, secure: Secure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty.pem").write_text("no certificate\n")
    monkeypatch.setenv(name, str(tmp_path / "empty.pem"))
    error = refusal(f"{secure.url}/x")
    assert str(error).startswith(f"{tmp_path / 'empty.pem'} has no certificates: ")
    assert error.hint == (
        "SSL_CERT_FILE, SSL_CERT_DIR or pip's setting `cert` names it: name a file of certificates (PEM)"
    )


def test_the_doctor_trusts_the_same(secure: Secure) -> None:
    service = {"site": Service(url=f"{secure.url}/x", kind="wheels", note="made", status="unverified live")}
    (refused,) = probe(service)
    (trusted,) = probe(service, authorities=Authorities({"SSL_CERT_FILE": str(secure.certificate)}))
    assert (refused.state, trusted.state) == ("warning", "ok")


class Tunnel:
    """A proxy that connects one client to one server, by http or by https."""

    def __init__(self, server: Secure, *, https: bool) -> None:
        self._server = server
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if https else None
        if self._context:
            self._context.load_cert_chain(server.certificate, server.certificate.with_name("key.pem"))
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"{'https' if https else 'http'}://127.0.0.1:{self._listening.getsockname()[1]}"
        self.asked: list[bytes] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with self._listening:
            client, _ = self._listening.accept()
        if self._context:
            client = self._context.wrap_socket(client, server_side=True)
        self.asked.append(client.recv(65536).split(b"\r\n")[0])
        host, _, port = self._server.host.partition(":")
        server = socket.create_connection((host, int(port)))
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        answers = threading.Thread(target=self._copy, args=(server, client), daemon=True)
        answers.start()
        self._copy(client, server)
        answers.join()
        client.close()
        server.close()

    @staticmethod
    def _copy(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("https", [False, True])
@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_a_server_behind_a_proxy_is_trusted_too(
    name: str, https: bool, secure: Secure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tunnel = Tunnel(secure, https=https)
    directory = hash_directory(secure.certificate, tmp_path / "hashed")
    for variable in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(variable, "")
    monkeypatch.setenv("HTTPS_PROXY", tunnel.url)
    monkeypatch.setenv(name, str(secure.certificate if name == "SSL_CERT_FILE" else directory))
    assert open_client(os.environ).page(f"{secure.url}/x").content == b"open"
    assert [line.partition(b" HTTP")[0] for line in tunnel.asked] == [f"CONNECT {secure.host}".encode()]


def test_it_is_an_error_of_reaching_the_host() -> None:
    assert issubclass(DistrustedError, UnreachedError)
