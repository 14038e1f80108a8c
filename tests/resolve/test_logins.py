"""Logins of netrc and git: each goes to the host that may have it, and to no other that an address leads to."""

from __future__ import annotations

import base64
import contextlib
import http.server
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprobuild.cli.overrides import make_decisions, unconfirmed_sources
from reprobuild.context import RunContext, open_client
from reprobuild.ecosystems.git.repository import GitRepository
from reprobuild.errors import EngineError, LockError
from reprobuild.infra.git.credentials import login_for, take_login, without_netrc
from reprobuild.resolve.source_lines import lock_sources
from reprobuild.snapshot.read import read_snapshot
from reprobuild.store.store import Store
from tests.loopback import Loopback
from tests.resolve.repositories import ENV, Project
from tests.test_decisions import NONE

OWN, DEFAULT, STORED = ("me", "own-word"), ("any", "default-word"), ("kept", "kept-word")
MACHINE = "machine 127.0.0.1 login me password own-word\n"
ENTRIES = (
    f"{MACHINE}machine git.example login it password its-word\ndefault login any password default-word\n"
)


class Host(Loopback):
    """A host of repositories that asks for a login; `asked` has those that came. `/old/` leads to itself."""

    def __init__(self, folder: Path, login: tuple[str, str] | None = None, leads: str = "") -> None:
        self.asked: list[tuple[str, str] | None] = []
        host = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                kind, _, word = self.headers.get("Authorization", "").partition(" ")
                user, _, password = base64.b64decode(word).decode().partition(":")
                came = (user, password) if kind else None
                host.asked.append(came)
                if self.path.startswith("/old/"):
                    self.answer(301, [("Location", host.url + self.path.removeprefix("/old"))])
                elif login and came != login:
                    self.answer(401, [("WWW-Authenticate", 'Basic realm="x"')])
                elif leads:
                    self.answer(302, [("Location", leads + self.path)])
                else:
                    self.serve()

            def do_POST(self) -> None:
                self.do_GET()

            def serve(self) -> None:
                """Have git answer (https://git-scm.com/docs/git-http-backend)."""
                path, _, query = self.path.partition("?")
                size = int(self.headers.get("Content-Length", 0))
                env = {
                    "GIT_PROJECT_ROOT": str(folder), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
                    "QUERY_STRING": query, "REQUEST_METHOD": self.command, "CONTENT_LENGTH": str(size),
                    "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                    "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                    "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                }  # fmt: skip
                said = subprocess.run(
                    ["git", "http-backend"], input=self.rfile.read(size), env={**ENV, **env},
                    capture_output=True, check=True,
                ).stdout  # fmt: skip
                head, _, body = said.partition(b"\r\n\r\n")
                rows = [row.partition(": ") for row in head.decode().split("\r\n")]
                code = next((int(value[:3]) for name, _, value in rows if name == "Status"), 200)
                self.answer(code, [(name, value) for name, _, value in rows], body)

            def answer(self, code: int, rows: list[tuple[str, str]], body: bytes = b"") -> None:
                self.send_response(code)
                for name, value in (*rows, ("Content-Length", str(len(body)))):
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: object) -> None:
                pass

        super().__init__(Handler)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "served/proj")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.netrc").write_text(ENTRIES)
    return tmp_path / "home"


@pytest.fixture
def env(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Have a user's environment, and see that nothing is left of the home that git gets."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    yield {**ENV, "HOME": str(home), "GIT_CONFIG_GLOBAL": str(home / ".gitconfig"), "NO_PROXY": "*"}
    assert list((tmp_path / "tmp").iterdir()) == []
    assert (home / ".netrc").read_text() == ENTRIES


def fetched(env: dict[str, str], tmp_path: Path, url: str, commit: str, *, configured: bool = False) -> bool:
    (tmp_path / "scratch").mkdir()
    repository = GitRepository(tmp_path / "scratch", env)
    with contextlib.suppress(EngineError):
        repository.fetch_remote(f"{url}/proj/.git", commit, configured=configured)
    return repository.has(commit)


@pytest.mark.parametrize("name", [".netrc", "_netrc"])
def test_a_snapshots_address_of_http_gets_no_login_of_netrc(
    name: str, project: Project, env: dict[str, str], home: Path, tmp_path: Path
) -> None:
    """Neither the host's own entry, as the way there is open to all, nor the one for every other host."""
    (home / ".netrc").rename(home / name)
    with Host(tmp_path / "served", OWN) as host, Host(tmp_path / "served", DEFAULT) as other:
        assert not fetched(env, tmp_path, host.url, project.head)
        (tmp_path / "scratch").rename(tmp_path / "first")
        assert not fetched(env, tmp_path, other.url.replace("127.0.0.1", "localhost"), project.head)
    (home / name).rename(home / ".netrc")
    assert set(host.asked) == set(other.asked) == {None}


def test_a_redirection_gets_no_login_of_netrc(project: Project, env: dict[str, str], tmp_path: Path) -> None:
    """Not even where the user named the address: another port of the host may be another's."""
    with Host(tmp_path / "served", OWN) as host, Host(tmp_path / "served", OWN, leads=host.url) as first:
        assert not fetched(env, tmp_path, first.url, project.head, configured=True)
    assert OWN in first.asked
    assert set(host.asked) == {None}


def test_an_address_that_the_user_names_gets_its_entry(
    project: Project, env: dict[str, str], home: Path, tmp_path: Path
) -> None:
    """`--source`; and the helper that keeps the user's logins is not given this one."""
    (home / ".gitconfig").write_text("[credential]\n\thelper = store\n")
    (home / ".git-credentials").write_text("")
    with Host(tmp_path / "served", OWN) as host:
        assert fetched(env, tmp_path, host.url, project.head, configured=True)
    assert set(host.asked) == {None, OWN}
    assert (home / ".git-credentials").read_text() == ""


def test_a_redirection_on_the_same_host_keeps_its_login(
    project: Project, env: dict[str, str], tmp_path: Path
) -> None:
    """The host of a repository that was renamed answers so."""
    with Host(tmp_path / "served", OWN) as host:
        assert fetched(env, tmp_path, f"{host.url}/old", project.head, configured=True)
    assert set(host.asked) == {None, OWN}


def _helper(env: dict[str, str], host: Host, login: tuple[str, str]) -> Path:
    """Have the user's settings keep a login for a host in a file of the user's home."""
    home = Path(env["HOME"])
    (home / ".config/git").mkdir(parents=True)
    (home / ".config/git/extra").write_text("[credential]\n\thelper = store\n")
    (home / ".gitconfig").write_text("[include]\n\tpath = ~/.config/git/extra\n")
    (home / ".git-credentials").write_text(f"http://{login[0]}:{login[1]}@{host.host.replace(':', '%3a')}\n")
    return home / ".gitconfig"


def test_a_host_gives_the_captured_commit_or_none(
    project: Project, env: dict[str, str], tmp_path: Path
) -> None:
    """The id is that of the content, so that nobody on an open way can put other content in its place."""
    other = Project(tmp_path / "other/proj", {"x": b"other\n"})
    with Host(tmp_path / "served") as host:
        assert not fetched(env, tmp_path, host.url, other.head)
    assert host.asked, "the host was asked"


@pytest.mark.parametrize("configured", [False, True])
def test_the_users_own_helper_of_credentials_is_asked(
    configured: bool, project: Project, env: dict[str, str], tmp_path: Path
) -> None:
    """Also where the entry of netrc is out of date; settings and logins are found below the user's home."""
    del env["GIT_CONFIG_GLOBAL"]
    with Host(tmp_path / "served", STORED) as host:
        _helper(env, host, STORED)
        kept = (Path(env["HOME"]) / ".git-credentials").read_text()
        assert fetched(env, tmp_path, host.url, project.head, configured=configured)
    assert set(host.asked) == ({None, OWN, STORED} if configured else {None, STORED})
    assert (Path(env["HOME"]) / ".git-credentials").read_text() == kept


def test_an_address_of_the_users_settings_gets_its_entry(
    project: Project, env: dict[str, str], home: Path, tmp_path: Path
) -> None:
    with Host(tmp_path / "served", OWN) as host:
        (home / ".gitconfig").write_text(f'[url "{host.url}/"]\n\tinsteadOf = https://git.invalid/\n')
        assert fetched(env, tmp_path, "https://git.invalid", project.head)
    assert OWN in host.asked


@pytest.mark.parametrize(("old", "address"), [("git://", "git://{}"), ("x@", "x@{}"), ("ssh://", "ssh://{}")])
def test_settings_that_name_no_host_name_no_address(
    old: str, address: str, project: Project, env: dict[str, str], home: Path, tmp_path: Path
) -> None:
    """With `http://` in the place of `git://` the host is still one of the snapshot."""
    with Host(tmp_path / "served", DEFAULT) as host:
        (home / ".gitconfig").write_text(f'[url "http://"]\n\tinsteadOf = {old}\n')
        place = address.format(host.url.removeprefix("http://").replace("127.0.0.1", "localhost"))
        assert not fetched(env, tmp_path, place, project.head)
    assert set(host.asked) == {None}


@pytest.mark.parametrize("doubted", [True, False])
def test_a_source_that_a_file_beside_the_snapshot_names_gets_no_login(
    doubted: bool, project: Project, env: dict[str, str], tmp_path: Path
) -> None:
    snapshot, file = tmp_path / "job/snapshot", tmp_path / "job/reprobuild.yaml"
    snapshot.mkdir(parents=True)
    (snapshot / "requirements.txt").write_text(f"-e git+https://x.invalid/x@{project.head}#egg=proj\n")
    with Host(tmp_path / "served", DEFAULT) as host:
        url = host.url.replace("127.0.0.1", "localhost")
        file.write_text(f"sources: {{proj: {url}/proj/.git}}\n")
        named = None if doubted else file
        decisions, folder = make_decisions(snapshot, named, **NONE)
        session = RunContext(
            store=Store(tmp_path / "store"), net=open_client(env, offline=True), env=env, folder=folder, say=print,
            now=0, progress=lambda *_, **__: None, doubted=unconfirmed_sources(snapshot, named, sources=()),
        )  # fmt: skip
        with contextlib.suppress(LockError):
            lock_sources(read_snapshot(snapshot), decisions, session.resolve_context(snapshot))
    assert set(host.asked) == ({None} if doubted else {None, DEFAULT})
    option = (f"proj={url}",)
    assert unconfirmed_sources(snapshot, None, sources=option) == frozenset()


@pytest.mark.parametrize(
    ("address", "configured", "login"),
    [
        ("https://git.example/x.git", False, ("it", "its-word")),
        ("https://GIT.example:443/x.git", False, ("it", "its-word")),
        ("https://it@git.example/x.git", False, ("it", "its-word")),
        ("https://he@git.example/x.git", False, None),
        ("https://it:other@git.example/x.git", False, None),
        ("https://git.example:8443/x.git", False, None),
        ("https://git.example:8443/x.git", True, ("it", "its-word")),
        ("http://git.example/x.git", False, None),
        ("https://other.example/x.git", False, None),
        ("https://other.example/x.git", True, DEFAULT),
        ("https://*.example/x.git", True, None),
        ("https://git.example:x/x.git", True, None),
    ],
)
def test_the_rules_of_netrc_are_those_of_indexes(
    address: str, configured: bool, login: tuple[str, str] | None, env: dict[str, str]
) -> None:
    assert login_for(address, env, configured=configured) == login


def test_the_login_of_an_address_is_on_no_command_line(
    project: Project, env: dict[str, str], tmp_path: Path
) -> None:
    """Other users of the machine can read the command lines of git and of its programs."""
    programs, rows = tmp_path / "programs", tmp_path / "rows"
    programs.mkdir()
    real = subprocess.run(["git", "--exec-path"], capture_output=True, text=True, check=True).stdout.strip()
    for name in ("git", "git-remote-http"):
        program = programs / name
        program.write_text(f'#!/bin/sh\necho "$0 $*" >>{rows}\nexec {real}/{name} "$@"\n')
        program.chmod(0o755)
    for path in Path(real).iterdir():
        if not (programs / path.name).exists():
            (programs / path.name).symlink_to(path)
    env |= {"PATH": f"{programs}:{env['PATH']}", "GIT_EXEC_PATH": str(programs)}
    login = ("some%one", "a-word:" + "x" * 12)
    with Host(tmp_path / "served", login) as host:
        url = host.url.replace("://", f"://some%25one:{login[1]}@")
        assert fetched(env, tmp_path, url, project.head)
    assert set(host.asked) == {None, login}
    assert "git-remote-http" in rows.read_text()
    assert login[1] not in rows.read_text()


@pytest.mark.parametrize(
    ("place", "taken"),
    [
        ("https://it:word@git.example:8443/x", ("https://git.example:8443/x", ("it", "word"))),
        ("https://word:@git.example/x", ("https://git.example/x", ("word", ""))),
        ("https://it@git.example/x", ("https://it@git.example/x", None)),
        ("ssh://it:word@git.example/x", ("ssh://it:word@git.example/x", None)),
        ("https://it:a%0ab@git.example/x", ("https://it:a%0ab@git.example/x", None)),
        ("https://it:word@git.example:x/x", ("https://it:word@git.example:x/x", None)),
        ("/srv/it:word@git.example", ("/srv/it:word@git.example", None)),
    ],
)
def test_a_login_is_taken_from_addresses_that_git_can_be_given_without(
    place: str, taken: tuple[str, tuple[str, str] | None]
) -> None:
    assert take_login(place) == taken


def test_a_home_that_is_not_there_has_nothing(env: dict[str, str]) -> None:
    for home in ("/nonexistent", "", "relative"):
        with without_netrc({**env, "HOME": home}) as own:
            assert list(Path(own["HOME"]).iterdir()) == []
            assert Path(own["HOME"]).stat().st_mode & 0o777 == 0o700
