"""A diff of a repository that nothing is installed from becomes a source where the user names the repository."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprobuild.errors import LockError, SnapshotError
from reprobuild.resolve import resolver
from reprobuild.resolve.environment.path_mapping import PathMap
from reprobuild.snapshot.read import read_snapshot
from reprobuild.store.store import Store
from tests.resolve.repositories import Project, binary, edit, patch, unreachable
from tests.resolve.test_logins import Host
from tests.resolve.test_sources import content, line, resolve
from tests.snapshot.samples import SECRETS

NAMED = re.compile(r"--source ('[^']*'|\S+?)(;|$)")


@pytest.fixture
def job(tmp_path: Path) -> Project:
    """The job's own repository: two commits, and a change of a text and a binary file that is in neither."""
    project = Project(tmp_path / "job")
    project.write("later.py", b"later\n")
    project.commit()
    edit(project)
    binary(project)
    return project


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def captured(job: Project) -> bytes:
    return job.diff("HEAD", "--binary", "--full-index")


def test_a_named_diff_becomes_a_source(job: Project, store: Store) -> None:
    diff = patch(captured(job), "job.diff")
    (source,), (ruling,) = resolve(store, patches=(diff,), origins={"job": f"{job.path}@{job.head}"})
    assert source.tree == job.worktree_id()
    assert (source.name, source.path, source.commit) == ("job", "/src/job", job.head)
    assert (source.installed, source.editable, source.url) == (False, False, "")
    assert source.patch is not None
    assert (ruling.file, ruling.subject, ruling.outcome) == ("job.diff", "job", "pinned")
    assert ruling.reason == (
        f"applied to commit {job.head[:12]} of job, tree {source.tree[:12]}; every blob id fits"
    )
    files = {path: data for path, (entry, data) in content(store, source).items() if entry.type == "file"}
    assert files["mod.py"] == (job.path / "mod.py").read_bytes()
    assert files["pkg/data.bin"] == (job.path / "pkg/data.bin").read_bytes()
    assert files["later.py"] == b"later\n"


def test_beside_an_editable_install(job: Project, store: Store, tmp_path: Path) -> None:
    library = Project(tmp_path / "proj", {"lib.py": b"1\n"})
    library.write("lib.py", b"2\n")
    diffs = (patch(captured(job), "Job_2.diff"), patch(library.diff(), "proj.diff"))
    origins = {"proj": str(library.path), "job-2": f"{job.path}@{job.head[:10]}"}
    sources, rulings = resolve(store, line(library.head), patches=diffs, origins=origins)
    assert [(one.name, one.installed) for one in sources] == [("proj", True), ("job-2", False)]
    assert sources[1].tree == job.worktree_id()
    assert {ruling.outcome for ruling in rulings} == {"pinned"}


def test_the_same_source_each_time(job: Project, store: Store, tmp_path: Path) -> None:
    diff, origins = patch(captured(job), "job.diff"), {"job": f"{job.path}@{job.head}"}
    first = resolve(store, patches=(diff,), origins=origins)
    again = resolve(Store(tmp_path / "other"), patches=(diff,), origins=origins)
    assert first == again


def options(reason: str) -> Iterator[str]:
    for found in NAMED.finditer(reason):
        yield shlex.split(found[1])[0]


@pytest.mark.parametrize("folder", ["job", "the job's"])
def test_the_commit_that_is_named_for_it_works_as_written(folder: str, tmp_path: Path, store: Store) -> None:
    job = Project(tmp_path / folder)
    edit(job)
    job.commit()
    job.write("later.py", b"later\n")
    newest = job.commit()
    job.write("mod.py", b"other\n")
    diff = patch(captured(job), "job.diff")
    sources, (ruling,) = resolve(store, patches=(diff,), origins={"job": str(job.path)})
    assert sources == ()
    assert (ruling.outcome, ruling.kind) == ("unresolved", "stray-diff")
    option = shlex.quote(f"job={job.path}@{newest[:12]}")
    assert ruling.reason == (
        f"nothing tells the commit that job.diff was made on; name it with --source {option}; it fits 2 commits of "
        f"{job.path}, of which this is the newest"
    )
    name, _, place = shlex.split(option)[0].partition("=")
    (source,), _ = resolve(store, patches=(diff,), origins={name: place})
    assert source.tree == job.worktree_id()


def test_no_commit_is_named_that_the_diff_does_not_fit(job: Project, store: Store, tmp_path: Path) -> None:
    other = Project(tmp_path / "other", {"mod.py": b"another\n"})
    diff = patch(captured(job), "job.diff")
    for place in (str(other.path), "https://git.example.org/job.git", str(tmp_path / "gone")):
        _, (ruling,) = resolve(store, patches=(diff,), origins={"job": place})
        assert ruling.reason == (
            "nothing tells the commit that job.diff was made on; name it with --source "
            f"{shlex.quote(f'job={place}@COMMIT')}"
        )


def test_a_diff_of_new_files_alone_names_no_commit(store: Store, tmp_path: Path) -> None:
    job = Project(tmp_path / "job")
    job.write("new.py", b"new\n")
    job.git("add", "-N", "new.py")
    diff = patch(captured(job), "job.diff")
    _, (ruling,) = resolve(store, patches=(diff,), origins={"job": str(job.path)})
    assert "@COMMIT" in ruling.reason
    (source,), _ = resolve(store, patches=(diff,), origins={"job": f"{job.path}@{job.head}"})
    assert "new.py" in content(store, source)


def test_an_unnamed_diff_says_how_to_name_it(job: Project, store: Store) -> None:
    sources, (ruling,) = resolve(store, patches=(patch(captured(job), "My_Job.diff"),))
    assert sources == ()
    assert (ruling.outcome, ruling.kind) == ("unresolved", "stray-diff")
    assert ruling.reason.endswith(
        "if it is of a repository that nothing is installed from, name that one with --source my-job=PATH@COMMIT"
    )
    _, (ruling,) = resolve(store, patches=(patch(captured(job), "my job.diff"),))
    assert ruling.reason.endswith("name that one with the option --source")


def test_a_commit_that_the_diff_does_not_fit(job: Project, store: Store) -> None:
    first = job.ask("rev-parse", "HEAD")
    edit(job)
    job.commit()
    job.write("mod.py", b"other\n")
    diff = patch(captured(job), "job.diff")
    with pytest.raises(LockError, match=r"job\.diff:\d+: does not apply"):
        resolve(store, patches=(diff,), origins={"job": f"{job.path}@{first}"})
    found = resolve(store, patches=(diff,), origins={"job": f"{job.path}@v9"})
    assert unreachable(found).startswith("commit v9 of job is not in")


def test_a_repository_of_a_server(job: Project, store: Store, tmp_path: Path) -> None:
    diff = patch(captured(job), "job.diff")
    job.git("clone", "--quiet", "--bare", ".", str(tmp_path / "job.git"))
    with Host(tmp_path) as host:
        place = f"{host.url}/job.git"
        (source,), _ = resolve(store, patches=(diff,), origins={"job": f"{place}@{job.head}"})
    assert source.url == place
    assert source.tree == job.worktree_id()


def test_a_secret_in_the_repository_is_refused(store: Store, tmp_path: Path) -> None:
    secret = next(iter(SECRETS.values()))
    job = Project(tmp_path / "job", {"mod.py": b"1\n", "config.py": f"token = '{secret}'\n".encode()})
    job.write("mod.py", b"2\n")
    diff = patch(captured(job), "job.diff")
    with pytest.raises(SnapshotError, match=r"job: config\.py:1: this looks like a secret"):
        resolve(store, patches=(diff,), origins={"job": f"{job.path}@{job.head}"})


def test_commands_start_in_the_only_code_of_a_recipe(job: Project, store: Store, tmp_path: Path) -> None:
    library = Project(tmp_path / "proj", {"lib.py": b"1\n"})
    diff = patch(captured(job), "job.diff")
    origins = {"proj": str(library.path), "job": f"{job.path}@{job.head}"}
    sources, _ = resolve(store, line(library.head), patches=(diff,), origins=origins)
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot" / "requirements.txt").write_text("six==1.16.0\n")
    snapshot = read_snapshot(tmp_path / "snapshot")
    assert resolver._choose_workdir(snapshot, PathMap(), sources) == "/src/job"
    assert resolver._choose_workdir(snapshot, PathMap(), sources[:1]) == "/src/proj"
    assert resolver._choose_workdir(snapshot, PathMap(), (*sources[:1], *sources[:1])) == "/workspace"
