"""Repositories that die: the commit or nothing, in time, and a locked source that is gone is named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from reprobuild.errors import FetchError, LockError
from reprobuild.infra.git import command
from reprobuild.infra.git.addresses import read_origin
from reprobuild.infra.http.client import Net
from reprobuild.lock.model import Resolution
from reprobuild.lock.python import Source
from reprobuild.resolve.sources.trees import SourceInputs, resolve_sources
from reprobuild.store.fetch import fetch
from reprobuild.store.store import Store
from tests.fault_injection.dead import FAULTS, LOGIN, Scene
from tests.resolve.repositories import ENV, Project, requirement, unreachable
from tests.resolve.served import Reply, Served

HINT = "name a bundle, a clone or another remote with --source proj=PATH|URL"
REFS = "/proj.git/info/refs?service=git-upload-pack"


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Served, Served]]:
    monkeypatch.setattr(command, "PATIENCE", 1)
    with Served() as server, Served() as other:
        yield server, other


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "proj")


def publish(project: Project, server: Served, root: str = "/proj.git") -> str:
    """Serve a repository as plain files (git's dumb protocol), and return its address."""
    project.git("gc", "--quiet", "--prune=now")
    project.git("update-server-info")
    for path in [path for path in server.replies if path.startswith(root)]:
        del server.replies[path]
    folder = project.path / ".git"
    for path in folder.rglob("*"):
        if path.is_file() and "hooks" not in path.parts:
            name = f"{root}/{path.relative_to(folder)}"
            server.give(name, path.read_bytes())
            if name.endswith("info/refs"):
                server.give(f"{name}?service=git-upload-pack", path.read_bytes())
    return server.url + root


Found = tuple[tuple[Source, ...], tuple[Resolution, ...]]


def find(store: Store, url: str, commit: str, *, source: str = "", env: Mapping[str, str] = ENV) -> Found:
    origins = {"proj": read_origin(source, Path())} if source else {}
    given = SourceInputs(patches=(), origins=origins, store=store, env={**env, "NO_PROXY": "127.0.0.1"})
    return resolve_sources((requirement(f"-e git+{url}@{commit}#egg=proj"),), given)


def lock(store: Store, url: str, commit: str, *, source: str = "") -> Source:
    (found,), _ = find(store, url, commit, source=source)
    return found


def packs(server: Served) -> list[str]:
    return [path for path in server.replies if path.endswith(".pack")]


# curl unpacks what is packed on the way; git follows redirections of the list of refs alone.
ALIVE = {REFS: ("leads to a mirror", "another media type", "gzip"), "pack": ("another media type", "gzip")}


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "cut twice"])
def test_a_server_of_repositories_dies(
    project: Project, served: tuple[Served, Served], fault: str, tmp_path: Path
) -> None:
    server, other = served
    url, store = publish(project, server), Store(tmp_path / "store")
    whole = lock(Store(tmp_path / "full"), url, project.head)
    publish(project, other, "/mirror/proj.git")
    for path in (REFS, *packs(server)):
        publish(project, server)
        place = Scene(path, server.replies[path][0], server, other)
        server.give(path, *FAULTS[fault](place))
        if fault in ALIVE.get(path, ALIVE["pack"]):
            found = lock(store, url, project.head)
            assert (found.tree, found.file) == (whole.tree, whole.file)
            continue
        reason = unreachable(find(store, url, project.head))
        assert url in reason
        assert HINT in reason
    publish(project, server)
    assert lock(store, url, project.head) == whole


def test_a_server_that_says_nothing_is_left(
    project: Project, served: tuple[Served, Served], tmp_path: Path
) -> None:
    server, _ = served
    url = publish(project, server)
    server.give(REFS, Reply(silent=4))
    reason = unreachable(find(Store(tmp_path / "store"), url, project.head))
    assert "Operation too slow" in reason
    assert reason.endswith(f"; {HINT}")


def test_a_branch_is_forced_and_a_tag_moves(
    project: Project, served: tuple[Served, Served], tmp_path: Path
) -> None:
    server, _ = served
    project.git("tag", "v1")
    captured = project.head
    url = publish(project, server)
    whole = lock(Store(tmp_path / "full"), url, captured)
    project.write("mod.py", b"another\n")
    project.commit()
    project.git("tag", "--force", "v1")
    publish(project, server)
    store = Store(tmp_path / "store")
    assert lock(store, url, captured) == whole  # the commit is still below the branch
    with pytest.raises(
        LockError, match=f"names commit {captured[:12]} of proj, and --source names v1"
    ) as caught:
        lock(store, url, captured, source=f"{url}@v1")
    assert caught.value.hint == "leave the revision out: the captured commit is taken"
    project.git("checkout", "--quiet", "--orphan", "new")
    project.commit()
    project.git("branch", "--delete", "--force", "main")
    project.git("tag", "--delete", "v1")
    project.git("reflog", "expire", "--expire=now", "--all")
    publish(project, server)
    reason = unreachable(find(store, url, captured))
    assert reason.startswith(f"commit {captured[:12]} of proj is not in ")
    assert reason.endswith(f"{url}; was it ever pushed? {HINT}")


def test_a_server_wants_a_password_and_nobody_is_asked(
    project: Project, served: tuple[Served, Served], tmp_path: Path
) -> None:
    """git would ask at the terminal, or open a window by the user's own program."""
    server, _ = served
    url = publish(project, server)
    server.give(REFS, Reply(LOGIN, 401, {"WWW-Authenticate": 'Basic realm="repositories"'}))
    asked = tmp_path / "asked"
    window = tmp_path / "window"
    window.write_text(f'#!/bin/sh\necho "$1" >> {asked}\necho wrong\n')
    window.chmod(0o755)
    reason = unreachable(find(Store(tmp_path / "store"), url, project.head))
    assert reason.startswith("the repository of proj cannot be had: could not fetch")
    assert "terminal prompts disabled" in reason
    assert reason.endswith(f"; {HINT}")
    env = {**ENV, "GIT_ASKPASS": str(window)}
    reason = unreachable(find(Store(tmp_path / "store"), url, project.head, env=env))
    assert "Authentication failed" in reason
    assert asked.read_text().startswith("Username for ")
    assert reason.endswith(f"; {HINT}")


def test_a_locked_source_that_only_the_store_had(
    project: Project, served: tuple[Served, Served], tmp_path: Path
) -> None:
    server, _ = served
    store = Store(tmp_path / "store")
    source = lock(store, publish(project, server), project.head)
    server.replies.clear()
    asked = len(server.asked)
    assert fetch([source.file], store, Net(offline=True)) == 0
    with pytest.raises(FetchError) as caught:
        fetch([source.file], Store(tmp_path / "empty"), Net())
    for text in (source.file.filename, f"sha256 {source.file.sha256}", f"{source.file.size} bytes"):
        assert text in str(caught.value)
    assert "run `reprobuild from-snapshot`" in caught.value.hint
    assert len(server.asked) == asked
