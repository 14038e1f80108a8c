"""One run of `lock` names all failing indexes, repositories and lines, each with its place and a next command."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from reprobuild.config.overrides import Decisions
from reprobuild.ecosystems.pypi.indexes import PackageIndexes
from reprobuild.errors import FetchError, LockError, ReproError, SnapshotError
from reprobuild.infra.http.client import Net
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.resolver import resolve_snapshot
from reprobuild.snapshot.model import Snapshot
from reprobuild.store.store import Store
from tests.fault_injection.dead import MANNERS
from tests.resolve.repositories import ENV, Project
from tests.resolve.served import Reply, Served
from tests.resolve.small import snapshot, use_debian
from tests.resolve.test_files import Index

BASE = Decisions(base="debian/bookworm")
CLOSED = "http://127.0.0.1:1"
NAMES = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta")
LINES = "".join(f"{name}==1.0\n" for name in NAMES[:5])


@pytest.fixture(autouse=True)
def debian(monkeypatch: pytest.MonkeyPatch) -> None:
    use_debian(monkeypatch)


@pytest.fixture
def other() -> Iterator[Served]:
    with Served() as server:
        yield server


def around(folder: Path, *simple: str) -> ResolveContext:
    return ResolveContext(
        store=Store(folder / "store"), net=Net(manners=MANNERS), env={**ENV, "PATH": os.environ["PATH"]},
        folder=folder, now=0, captured=folder, say=lambda text: None,
        indexes=PackageIndexes(find_links=(), simple=simple, credentials={}),
    )  # fmt: skip


def refused(held: Snapshot, context: ResolveContext, decisions: Decisions = BASE) -> ReproError:
    with pytest.raises(ReproError) as caught:
        resolve_snapshot(held, decisions, context)
    return caught.value


def failing_index(served: Served, root: str, *names: str) -> str:
    for name in names:
        served.give(f"{root}/{name}/", Reply(b"", status=401))
    return served.url + root


def repositories(folder: Path, served: Served) -> tuple[str, Decisions]:
    """Return lines of three repositories, and the decisions on them: only the first can be had."""
    project = Project(folder / "good", {"pyproject.toml": b"[build-system]\nrequires = []\n", "a.py": b"1\n"})
    rows = (
        f"-e git+https://git.example.org/good.git@{project.head}#egg=good\n"
        f"-e git+{CLOSED}/closed.git@{'a' * 40}#egg=closed\n"
        f"-e git+{served.url}/missing.git@{'b' * 40}#egg=missing\n"
    )
    return rows, msgspec.structs.replace(BASE, sources={"good": str(project.path)})


@pytest.mark.parametrize("count", [1, 5, 7])
def test_two_of_three_indexes_fail(count: int, served: Served, tmp_path: Path) -> None:
    """The second answers 401 to each project, the third cannot be reached: both are in the text."""
    good, names = Index(served, "/good"), NAMES[:count]
    for name in names:
        good.add(f"{name}-1.0-py3-none-any.whl")
    private = failing_index(served, "/private", *names)
    held = snapshot(tmp_path / "snapshot", requirements="".join(f"{name}==1.0\n" for name in names))
    err = refused(held, around(tmp_path, good.url, private, f"{CLOSED}/simple"))
    assert isinstance(err, FetchError)
    rows = str(err).splitlines()
    assert rows[0].startswith(f"the index {private} gives no list of the files of alpha: ")
    assert any(row.startswith(f"{CLOSED}/simple cannot be reached: ") for row in rows)
    assert not any(good.url in row for row in rows)
    assert "put the credentials where pip finds them (its configuration, or ~/.netrc)" in err.hint
    assert "check the network and the proxy settings, or name another address with --service" in err.hint


def test_two_of_three_repositories_fail(served: Served, tmp_path: Path) -> None:
    rows, decisions = repositories(tmp_path, served)
    err = refused(snapshot(tmp_path / "snapshot", requirements=rows), around(tmp_path), decisions)
    assert isinstance(err, LockError)
    assert re.findall(r"(?m)^  (\S+): (\w+): unresolved \(unreachable-source\): ", str(err)) == [
        ("requirements.txt:2", "closed"), ("requirements.txt:3", "missing"),
    ]  # fmt: skip
    assert (
        "name a bundle, a clone or another remote with --source closed=PATH|URL --source missing=PATH|URL"
        in err.hint.splitlines()
    )


def test_three_of_five_lines_are_gone(served: Served, tmp_path: Path) -> None:
    good = Index(served, "/good")
    for name in ("alpha", "gamma"):
        good.add(f"{name}-1.0-py3-none-any.whl")
    good.add("beta-2.0-py3-none-any.whl")
    err = refused(snapshot(tmp_path / "snapshot", requirements=LINES), around(tmp_path, good.url))
    assert re.findall(r"(?m)^  (\S+): (\w+): unresolved \(([\w-]+)\): ", str(err)) == [
        ("requirements.txt:2", "beta", "unknown-version"), ("requirements.txt:4", "delta", "unknown-project"),
        ("requirements.txt:5", "epsilon", "unknown-project"),
    ]  # fmt: skip
    assert "to go on without exactly these: --accept delta --accept epsilon --accept beta" in err.hint


@pytest.mark.parametrize(
    ("first", "more"),
    [
        ("nothing", {}), ("as-of", {"as_of": "2024-01-15"}), ("base", {"packages": ("nosuch",)}),
    ],
)  # fmt: skip
def test_indexes_and_repositories_are_named_whatever_fails_first(
    first: str, more: dict[str, object], served: Served, tmp_path: Path
) -> None:
    good = Index(served, "/good")
    private = failing_index(served, "/private", *NAMES)
    rows, decisions = repositories(tmp_path, served)
    held = snapshot(tmp_path / "snapshot", requirements=LINES + rows)
    err = refused(
        held,
        around(tmp_path, good.url, private, f"{CLOSED}/simple"),
        msgspec.structs.replace(decisions, **more),
    )
    text = str(err)
    assert f"the index {private} gives no list of the files of alpha: " in text
    assert f"{CLOSED}/simple cannot be reached: " in text
    assert re.findall(r"(?m)^  (\S+): (\w+): unresolved \(unreachable-source\): ", text) == [
        ("requirements.txt:7", "closed"), ("requirements.txt:8", "missing"),
    ]  # fmt: skip
    assert ("nosuch" in text) == (first == "base")


def test_secrets_in_two_repositories_are_one_error(tmp_path: Path) -> None:
    rows, sources = "", {}
    for name in ("one", "two"):
        project = Project(tmp_path / name, {"pyproject.toml": b"", ".env": b"A=1\n"})
        rows += f"-e git+https://git.example.org/{name}.git@{project.head}#egg={name}\n"
        sources[name] = str(project.path)
    held = snapshot(tmp_path / "snapshot", requirements=f"-e git+{CLOSED}/c.git@{'a' * 40}#egg=c\n{rows}")
    err = refused(held, around(tmp_path), msgspec.structs.replace(BASE, sources=sources))
    assert isinstance(err, SnapshotError)
    for word in ("one: .env", "two: .env", "requirements.txt:1: c: unresolved (unreachable-source)"):
        assert word in str(err)
    assert "--accept one/.env" in err.hint
    assert "--accept two/.env" in err.hint
