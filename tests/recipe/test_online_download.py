"""The program of online recipes that downloads distributions: its files, its logins, and its refusals."""

from __future__ import annotations

import base64
import hashlib
import http.server
import re
import runpy
import subprocess
import sys
import types
from pathlib import Path
from typing import ClassVar
from urllib.request import Request

import pytest

from reprobuild.recipe.online.embedded import embed
from reprobuild.recipe.render import template_folder
from tests.loopback import Loopback

PROGRAM = template_folder() / "online" / "download.py"
NETRC = "machine files.example.org login ada password lovelace\ndefault login any password any\n"


class Index(http.server.BaseHTTPRequestHandler):
    """An index of one project, whose file has another address."""

    requests: ClassVar[list[tuple[str, str | None]]] = []
    answers: ClassVar[dict[str, bytes]] = {
        "/simple/odd-name/": b"<a class=x href='../../files/other.whl'>x</a><A\nhref=\"/files/a%20b.whl?x=1&amp;y=2\">",
        "/files/a%20b.whl?x=1&y=2": b"content",
        "/direct/late.zip": b"late",
    }

    def log_message(self, format: str, *arguments: object) -> None:
        """Requests are no news."""

    def do_GET(self) -> None:
        """Answer, and remember the login."""
        self.requests.append((self.path, self.headers["Authorization"]))
        content = self.answers.get(self.path)
        self.send_response(404 if content is None else 200)
        self.end_headers()
        self.wfile.write(content or b"")


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def download(folder: Path, index: str, *rows: str) -> subprocess.CompletedProcess[str]:
    (folder / "list").write_text("".join(f"{row}\n" for row in rows))
    (folder / ".netrc").write_text(NETRC)
    return subprocess.run(
        [sys.executable, "-I", "-S", PROGRAM, folder / "list", folder / "files"],
        env={"HOME": str(folder), "PIP_INDEX_URL": index}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_without_an_index_that_of_pip_is_asked(tmp_path: Path) -> None:
    with Loopback(Index) as server:
        (tmp_path / "index").write_text(f"{server.url}/simple\n")
        done = download(tmp_path, "", f"{sha256(b'content')} requirements/a%20b.whl odd-name -")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "files/requirements/a b.whl").read_bytes() == b"content"


def test_pip_names_its_index() -> None:
    """The recipe asks pip this way."""
    steps = (template_folder() / "online" / "steps.j2").read_text()
    (code,) = re.findall(r"python -c '(from pip[^']*)'", steps)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"https://[a-z.]+/simple\n", done.stdout)


def test_files_come_from_the_index_or_their_address(tmp_path: Path) -> None:
    Index.requests.clear()
    with Loopback(Index) as server:
        done = download(
            tmp_path, f"{server.url}/simple",
            f"{sha256(b'content')} requirements/a%20b.whl odd-name -",
            f"{sha256(b'late')} sdist-late/late.zip late {server.url}/direct/late.zip",
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "files/requirements/a b.whl").read_bytes() == b"content"
    assert (tmp_path / "files/sdist-late/late.zip").read_bytes() == b"late"
    assert {login for _, login in Index.requests} == {None}  # the server has no TLS


def test_another_content_is_refused(tmp_path: Path) -> None:
    with Loopback(Index) as server:
        row = f"{sha256(b'other')} requirements/a%20b.whl odd-name {server.url}/direct/late.zip"
        done = download(tmp_path, f"{server.url}/simple", row)
    assert done.returncode == 1
    assert "a b.whl: no index has the file of the lock, and its address has not either" in done.stderr


def test_a_login_in_an_address_is_not_printed(tmp_path: Path) -> None:
    done = download(tmp_path, "https://ada:lovelace@files.example.org/simple", f"{'a' * 64} x/y y -")
    assert done.returncode == 1
    assert done.stderr == "an index has a login in its address: put it into ~/.netrc\n"


@pytest.mark.parametrize(
    ("address", "index", "has_login"),
    [
        ("https://files.example.org/x", "", True),
        ("https://files.example.org:443/x", "", True),
        ("https://files.example.org:8443/x", "", False),
        ("https://files.example.org:8443/x", "https://files.example.org:8443/simple", True),
        ("https://other.example.org/x", "", False),
    ],
)
def test_a_host_gets_its_own_login(tmp_path: Path, address: str, index: str, has_login: bool) -> None:
    program = types.SimpleNamespace(**runpy.run_path(str(PROGRAM)))
    (tmp_path / "netrc").write_text(NETRC)
    request = program.Logins(tmp_path / "netrc", index).https_request(Request(address))
    login = "Basic " + base64.b64encode(b"ada:lovelace").decode()
    assert request.get_header("Authorization") == (login if has_login else None)
    assert "Authorization" not in request.headers  # what a redirection would repeat
    assert not hasattr(program.Logins, "http_request")


def test_people_can_read_it() -> None:
    assert not embed("x", PROGRAM.read_bytes()).encoded
