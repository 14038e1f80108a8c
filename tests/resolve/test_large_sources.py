"""Source trees that are large, and those that only say so: what is in memory has a bound, and so has the disk."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from reprobuild.ecosystems.git import repository as reading
from reprobuild.ecosystems.git.tree_listing import Blob
from reprobuild.errors import EngineError, LockError
from reprobuild.infra.untrusted.names import HOSTILE, LONGEST_PATH
from reprobuild.resolve.sources import large_trees
from reprobuild.resolve.sources.large_trees import find_secret
from reprobuild.store.store import Store
from tests.resolve.repositories import ENV, Project
from tests.resolve.test_sources import content, line, resolve
from tests.snapshot.samples import SECRETS

FILES = {
    "one": b"a\n" * 3000,
    "two": b"",
    "three": bytes(range(256)) * 20,
    "d/four": b"x",
    "d/one": b"a\n" * 3000,
}
# A program of its own, whose memory is counted apart: it may have 300 MiB more than what it has at the beginning.
BOUNDED = """
import resource, sys
from pathlib import Path
from reprobuild.errors import LockError
from reprobuild.store.store import Store
from tests.resolve.test_sources import line, resolve
here = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (here + (300 << 20),) * 2)
try:
    resolve(Store(Path(sys.argv[1])), line(sys.argv[2]), origins={"proj": sys.argv[3]})
except LockError as err:
    print(err, err.hint)
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def bounded(tmp_path: Path, project: Project) -> str:
    """Lock a project in a process with little memory, and return what it says."""
    argv = [sys.executable, "-c", BOUNDED, str(tmp_path / "store"), project.head, str(project.path)]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def sparse(path: Path, size: int) -> None:
    with path.open("wb") as stream:
        stream.truncate(size)


def test_a_small_repository_of_a_huge_tree_is_refused(tmp_path: Path, store: Store) -> None:
    project = Project(tmp_path / "proj", {"x": bytes(1 << 20)})
    blob = project.ask("rev-parse", "HEAD:x")
    tree = _tree(project, [f"100644 blob {blob}\t{number}" for number in range(300)])
    commit = project.ask("commit-tree", "-m", "bomb", tree)
    project.git("update-ref", "refs/heads/bomb", commit)
    with pytest.raises(LockError, match=f"unpacks to 300 files of {300 << 20} bytes") as caught:
        resolve(store, line(commit), origins={"proj": str(project.path)})
    assert caught.value.hint == HOSTILE


def test_a_large_file_is_locked_in_bounded_memory(tmp_path: Path) -> None:
    project = Project(tmp_path / "proj", {"x": b"x"})
    sparse(project.path / "zeros", 100 << 20)
    project.commit()
    assert bounded(tmp_path, project) == ""
    assert (tmp_path / "store/blobs").exists()


@pytest.mark.parametrize("empty", [False, True])
def test_a_tree_of_too_many_files_is_refused(tmp_path: Path, store: Store, empty: bool) -> None:
    """Ten directories of ten objects that hold one another name ten thousand million files, or empty directories."""
    project = Project(tmp_path / "proj", {"x": b"x"})
    blob = project.ask("rev-parse", "HEAD:x")
    tree = _tree(project, [] if empty else [f"100644 blob {blob}\t{number}" for number in range(10)])
    for _ in range(9):
        tree = _tree(project, [f"040000 tree {tree}\t{number}" for number in range(10)])
    commit = project.ask("commit-tree", "-m", "bomb", tree)
    project.git("update-ref", "refs/heads/bomb", commit)
    with pytest.raises(EngineError, match="wrote more than 128 MiB") as caught:
        resolve(store, line(commit), origins={"proj": str(project.path)})
    assert "hostile" in caught.value.hint


def _tree(project: Project, rows: list[str]) -> str:
    return subprocess.run(
        ["git", "mktree"], input="".join(f"{row}\n" for row in rows), cwd=project.path, env=ENV, check=True, text=True,
        capture_output=True,
    ).stdout.strip()  # fmt: skip


def test_a_tree_has_a_bound_of_its_own(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_trees, "_MOST", 4000)
    project = Project(tmp_path / "proj", FILES)
    with pytest.raises(LockError, match=r"of proj has 17121 bytes; a source may have 4000") as caught:
        resolve(store, line(project.head), origins={"proj": str(project.path)})
    assert caught.value.hint == (
        "keep data out of the repository and mount it, or leave the source out with --drop proj"
    )


def test_a_link_that_no_system_has_is_refused(tmp_path: Path, store: Store) -> None:
    project = Project(tmp_path / "proj", {"x": b"x" * (LONGEST_PATH + 1)})
    tree = _tree(project, [f"120000 blob {project.ask('rev-parse', 'HEAD:x')}\tlink"])
    commit = project.ask("commit-tree", "-m", "link", tree)
    project.git("update-ref", "refs/heads/link", commit)
    with pytest.raises(LockError, match=f"holds 'link', a link of {LONGEST_PATH + 1} bytes") as caught:
        resolve(store, line(commit), origins={"proj": str(project.path)})
    assert caught.value.hint == HOSTILE


@pytest.mark.parametrize("bound", [1, 100, 5999, 6000, 6001, 12121])
def test_the_tar_is_the_same_however_the_files_are_read(
    bound: int, tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(tmp_path / "proj", FILES)
    (whole,), _ = resolve(store, line(project.head), origins={"proj": str(project.path)})
    for module in (reading, large_trees):
        monkeypatch.setattr(module, "AT_ONCE", bound)
    monkeypatch.setattr(large_trees, "_PORTION", 1000)
    (parts,), _ = resolve(Store(tmp_path / "other"), line(project.head), origins={"proj": str(project.path)})
    assert whole == parts
    assert {path: data for path, (_, data) in content(store, whole).items() if path != "d"} == FILES


@pytest.mark.parametrize("before", [0, 1, 995, 1000, 1990, 5000])
@pytest.mark.parametrize("filling", [b"word\n", b"\0"])
def test_a_secret_on_the_bound_of_two_portions_is_seen(
    before: int, filling: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_trees, "_PORTION", 1000)
    monkeypatch.setattr(large_trees, "_OVERLAP", 400)
    text = (filling * before)[:before] + b"\n" + SECRETS["github"].encode() + b"\n" + filling * 1000
    blob = Blob(mode="100644", id="", path="data.txt", size=len(text))
    whole = find_secret(blob, io.BytesIO(text))
    monkeypatch.setattr(large_trees, "AT_ONCE", 10)
    assert whole
    assert find_secret(blob, io.BytesIO(text)) == whole


def test_a_large_file_of_a_secret_name_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_trees, "AT_ONCE", 10)
    text = b" " * 100 + b"x" * 100
    monkeypatch.setattr(large_trees, "_PORTION", 50)
    for mode, said in (("100644", ": files of this name hold secrets"), ("120000", "")):
        blob = Blob(mode=mode, id="", path="id_rsa", size=len(text))
        assert find_secret(blob, io.BytesIO(text)) == said
