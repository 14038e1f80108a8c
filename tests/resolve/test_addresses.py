"""Addresses of repositories that a snapshot names: git's own transports alone, and none that is waited for for ever."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprobuild.ecosystems.git.repository import GitRepository
from reprobuild.errors import EngineError, LockError, SnapshotError
from reprobuild.infra.git import command as program
from reprobuild.infra.proc.errors import ProcessFailedError, ProcessTimeoutError
from tests.openssh import openssh_client
from tests.resolve.repositories import ENV, Project

HELPERS = (
    "fd::0",
    "fd::17/x",
    "ext::sh -c touch% MARK",
    "foo::x",
    "persistent-https::example.org/x",
    "Fd::0",
)
SCHEMES = ("foo://example.org/x", "ftp://example.org/x", "transport-helper://x", "fd://0")
OPTIONS = (
    "-u./run", "--upload-pack=./run", "ssh://-oProxyCommand=./run/x", "ssh://me@-oProxyCommand=./run/x",
    "-oProxyCommand=./run:x", "me@-oProxyCommand=./run:x", "git://-x/y",
)  # fmt: skip
HINT = "name a path, HOST:PATH, or an address of file, git, http, https, ssh"


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    (tmp_path / "scratch").mkdir()
    return GitRepository(tmp_path / "scratch", ENV)


@contextlib.contextmanager
def silent() -> Iterator[str]:
    """Give the address of a server that takes every connection and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken: list[socket.socket] = []

        def take() -> None:
            with contextlib.suppress(OSError):
                while True:
                    taken.append(server.accept()[0])

        thread = threading.Thread(target=take, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)  # closing alone does not end `accept`
            thread.join()
            for one in taken:
                one.close()


@pytest.mark.parametrize("address", [*HELPERS, *SCHEMES, *OPTIONS])
def test_an_address_that_leads_to_a_program_is_refused_at_once(
    address: str, repository: GitRepository
) -> None:
    begin = time.monotonic()
    with pytest.raises(LockError, match="git is not given the address") as caught:
        repository.fetch_remote(address, "main")
    assert caught.value.hint == HINT
    assert time.monotonic() - begin < 1
    with pytest.raises(SnapshotError, match="git is not given the address"):
        program.check_address(address, SnapshotError)


@pytest.mark.parametrize(
    "address",
    [
        "https://example.org/x.git", "http://me:word@example.org:8080/x", "ssh://me@example.org:22/x", "git://example.org/x",
        "git@example.org:x/y.git", "example.org:x", "file:///srv/x.git", "/srv/x.git", "git+ssh://example.org/x",
        "https://[::1]:8080/x", "ssh://git@[2001:db8::1]/x", "/srv/a::b", "https://example.org/a-b/-c",
    ],
)  # fmt: skip
def test_git_is_given_its_own_transports(address: str) -> None:
    program.check_address(address, LockError)
    assert program.is_safe(address)


@pytest.mark.parametrize("address", HELPERS)
def test_git_itself_refuses_them_too(address: str, tmp_path: Path) -> None:
    """An address may come by a way that is not looked at: a redirection of the user's settings."""
    Project(tmp_path / "own")
    with pytest.raises(ProcessFailedError, match=r"not allowed|not supported"):
        program.fetch(
            tmp_path / "own/.git", address, "main", env=program.fetch_environment(ENV), purpose="fetch it"
        )
    assert not (tmp_path / "MARK").exists()


def test_the_users_own_list_of_transports_is_kept() -> None:
    allowed = program.fetch_environment({**ENV, "GIT_ALLOW_PROTOCOL": "https:ext"})["GIT_ALLOW_PROTOCOL"]
    assert allowed == "https"
    assert program.fetch_environment({**ENV, "GIT_ALLOW_PROTOCOL": "ext"})["GIT_ALLOW_PROTOCOL"] == "none"


def test_the_users_own_repository_is_not_written_to(tmp_path: Path) -> None:
    """In a hook of git, its variables name the repository of the hook."""
    mine, other = Project(tmp_path / "mine"), Project(tmp_path / "other", {"x": b"other\n"})
    before = sorted((mine.path / ".git").rglob("*"))
    env = {
        **ENV, "GIT_DIR": str(mine.path / ".git"), "GIT_OBJECT_DIRECTORY": str(mine.path / ".git/objects"),
        "GIT_INDEX_FILE": str(mine.path / ".git/index"),
    }  # fmt: skip
    (tmp_path / "scratch").mkdir()
    repository = GitRepository(tmp_path / "scratch", env)
    repository.fetch_remote(f"file://{other.path}", "main")
    assert repository.has(other.head)
    assert sorted((mine.path / ".git").rglob("*")) == before


@pytest.fixture(scope="module")
def openssh(tmp_path_factory: pytest.TempPathFactory) -> str:
    return openssh_client(tmp_path_factory.mktemp("openssh"))


@pytest.mark.parametrize("scheme", ["git", "http", "ssh"])
def test_a_server_that_says_nothing_is_left(
    scheme: str, openssh: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "SILENCE", 2)
    (tmp_path / "scratch").mkdir()
    path = f"{openssh}:{os.environ['PATH']}"
    env = {**ENV, "PATH": path, "NO_PROXY": "127.0.0.1", "HOME": str(tmp_path)}
    begin = time.monotonic()
    with silent() as place, pytest.raises(ProcessTimeoutError) as caught:
        GitRepository(tmp_path / "scratch", env).fetch_remote(f"{scheme}://{place}/x.git", "main")
    assert "`git` said nothing for 2 s" in str(caught.value)
    assert caught.value.hint.startswith("run the command by hand to see where it waits: git ")
    assert time.monotonic() - begin < 20
    assert not _left(place.rpartition(":")[2]), "a program of git's still waits"


def test_a_slow_server_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "PATIENCE", 1)
    (tmp_path / "scratch").mkdir()
    repository = GitRepository(tmp_path / "scratch", {**ENV, "NO_PROXY": "127.0.0.1"})
    begin = time.monotonic()
    with silent() as place, pytest.raises(EngineError, match=program.TOO_SLOW):
        repository.fetch_remote(f"http://{place}/x.git", "main")
    assert time.monotonic() - begin < 8


def test_progress_is_no_part_of_an_error(repository: GitRepository, tmp_path: Path) -> None:
    with pytest.raises(EngineError) as caught:
        repository.fetch_local(tmp_path / "nowhere")
    assert "does not appear to be a git repository" in str(caught.value)
    said = b"remote: Counting objects: 100% (3/3), done.\rReceiving objects:  12% (1/8)\rfatal: it broke\n"
    assert program._without_progress(said).strip() == b"fatal: it broke"


def _left(port: str) -> list[str]:
    """Return the processes that still have to do with a port."""
    until = time.monotonic() + 5
    while True:
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = path.read_bytes().decode(errors="replace").split("\0")
                found += (
                    [" ".join(words)] if port in " ".join(words) and "git" in words[0] + words[-2] else []
                )
        if not found or time.monotonic() > until:
            return found
        time.sleep(0.1)


# git ends at SIGTERM, and its children go on, as those of git's that unpack a pack.
ENDLESS = """
import os, sys, time
folder = next(word for word in sys.argv if word.startswith("--git-dir=")).partition("=")[2]
if "ls-remote" in sys.argv:
    print(sys.argv[-1])
elif os.fork():
    time.sleep(60)
else:
    with open(folder + "/objects/pack/tmp_pack", "wb") as stream:
        while True:
            stream.write(b"x" * (1 << 16))
            stream.flush()
            time.sleep(0.001)
"""


def test_a_remote_that_sends_without_end_is_left(
    repository: GitRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    git = tmp_path / "bin/git"
    git.write_text(f"#!{sys.executable} -IS\n{ENDLESS}")
    git.chmod(0o755)
    env = {**ENV, "PATH": str(git.parent)}
    monkeypatch.setattr(program, "MOST", 5 << 20)
    begin = time.monotonic()
    with pytest.raises(EngineError) as caught:
        program.fetch(
            tmp_path / "scratch/git", "https://example.org/x.git", "main", env=env, purpose="fetch x"
        )
    assert str(caught.value) == "could not fetch x: the remote sent more than 5 MiB"
    assert caught.value.hint == "clone it by hand, and name the clone with --source NAME=PATH"
    assert time.monotonic() - begin < 20
    pack = tmp_path / "scratch/git/objects/pack/tmp_pack"
    size = pack.stat().st_size
    time.sleep(0.5)
    assert pack.stat().st_size == size, "a child of git's still writes"
    repository.has("0" * 40)  # the repository is still one


def test_the_bound_of_a_fetch_counts_what_it_adds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(program, "MOST", 10)
    watch = program._watch_size(scratch, "fetch x")
    (scratch / "pack").write_bytes(b"x" * 10)
    watch()
    watch = program._watch_size(scratch, "fetch x")
    (scratch / "pack").write_bytes(b"x" * 21)
    with pytest.raises(EngineError, match="the remote sent more than 0 MiB") as caught:
        watch()
    assert not isinstance(caught.value, ProcessFailedError)  # after which `fetch_remote` tries again


def test_the_bound_of_a_fetch_counts_directories_of_any_depth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of a reference is a path, as long as the remote likes."""
    monkeypatch.setattr(program, "MOST", 1 << 20)
    folder = tmp_path / "scratch"
    folder.mkdir()
    watch = program._watch_size(folder, "fetch x")
    watch()
    names = [folder / "/".join("d" * depth) for depth in range(1, 1500)]
    for name in names:
        name.mkdir()
    with pytest.raises(EngineError, match="the remote sent more than 1 MiB"):
        watch()
    for name in reversed(names):  # `rmtree` of Python 3.11 goes no thousand directories deep
        name.rmdir()


def test_a_fetching_git_has_a_bound_of_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """git keeps a tag or a tree of a pack in memory as a whole."""
    (tmp_path / "bin").mkdir()
    git = tmp_path / "bin/git"
    git.write_text(f"#!{sys.executable} -IS\n{LIMITED}")
    git.chmod(0o755)
    env = {**ENV, "PATH": str(git.parent)}
    monkeypatch.setattr(program, "_MEMORY", 300 << 20)
    for url, words in (("https://example.org/x.git", "had 314572800"), (str(tmp_path), "had -1")):
        with pytest.raises(EngineError) as caught:
            program.fetch(tmp_path / "scratch" / words, url, "main", env=env, purpose="fetch x")
        assert words in str(caught.value)


LIMITED = """
import resource, sys
if "fetch" in sys.argv:
    sys.exit(f"had {resource.getrlimit(resource.RLIMIT_DATA)[0]}")
"""
