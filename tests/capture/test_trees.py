"""The trees that capture makes itself are those that git would make."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from reprobuild_runtime import capture
from tests.capture.repositories import document, git, new_origin, proved, take, write

NAMES = ("a", "b", "a.b", "a-b", "a0", "A", "\u00e9", "dir", "dir.x", "zz")


def trees(top: Path, out: Path) -> list[Any]:
    take(top, out)
    (found,) = document(out)["repositories"]
    assert {part["outcome"] for name, part in document(out)["parts"].items() if "repository" in name} == {
        "done"
    }
    return [found[name] for name in ("index", "worktree", "head", "bundle")]


def by_git(top: Path, out: Path) -> list[Any]:
    """Return the same with git's own update-index and write-tree."""
    with mock.patch.object(capture, "_is_doubtful", return_value=True):
        return trees(top, out)


def path_of(draw: random.Random) -> str:
    return "/".join(draw.choice(NAMES) for _ in range(draw.randint(1, 4)))


def put(top: Path, path: str, content: bytes) -> None:
    """Write a file, whatever is in its way."""
    place = top
    for name in path.split("/")[:-1]:
        place /= name
        if place.is_file():
            place.unlink()
    if (top / path).is_dir():
        shutil.rmtree(top / path)
    write(top, path, content)


@pytest.mark.parametrize("seed", range(8))
def test_any_state(seed: int, tmp_path: Path) -> None:
    """Folders that become files and files that become directories, staged and not, with names in git's odd order."""
    draw = random.Random(seed)
    top = new_origin(tmp_path, {path_of(draw) + "/f": b"%d" % n for n in range(12)})
    for step in range(14):
        tracked = sorted(path for path in top.rglob("*") if path.is_file() and ".git" not in path.parts)
        if draw.random() < 0.4 and len(tracked) > 2:
            draw.choice(tracked).unlink()
        else:
            put(top, path_of(draw), b"%d" % step)
        if draw.random() < 0.4:
            git(top, "add", "-A")
    put(top, path_of(draw), b"at the end")
    assert trees(top, tmp_path / "ours") == by_git(top, tmp_path / "theirs")


def test_before_the_first_commit_and_amid_a_conflict(tmp_path: Path) -> None:
    unborn = tmp_path / "unborn"
    unborn.mkdir()
    git(unborn, "init", "-q", ".")
    write(unborn, "staged/a", b"1")
    git(unborn, "add", "-A")
    write(unborn, "other/b", b"2")
    assert trees(unborn, tmp_path / "ours") == by_git(unborn, tmp_path / "theirs")
    top = new_origin(tmp_path)
    git(top, "checkout", "-qb", "side")
    write(top, "dir/inner.py", b"side\n")
    git(top, "commit", "-qam", "side")
    git(top, "checkout", "-q", "main")
    write(top, "dir/inner.py", b"main\n")
    git(top, "commit", "-qam", "main")
    git(top, "merge", "side", fails=True)
    assert trees(top, tmp_path / "mine") == by_git(top, tmp_path / "gits")


def test_a_conflict_of_a_file_with_a_folder(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    write(top, "clash/inner", b"inner\n")
    blob = git(top, "hash-object", "-w", "clash/inner").decode().strip()
    rows = f"100644 {blob} 1\tclash\n100644 {blob} 2\tclash\n100644 {blob} 0\tclash/inner\n"
    git(top, "update-index", "--index-info", stdin=rows.encode())
    ours = trees(top, tmp_path / "ours")
    assert ours == by_git(top, tmp_path / "theirs")
    assert b"clash/inner" in git(top, "ls-files", "--stage")


def test_a_commit_that_no_index_can_make(tmp_path: Path) -> None:
    """With a directory that is empty: the trees around it are not those of the index, and all are written."""
    top = new_origin(tmp_path)
    blob = git(top, "rev-parse", "HEAD:dir/inner.py").strip()
    void = git(top, "mktree").strip()
    inner = git(
        top, "mktree", stdin=b"100644 blob " + blob + b"\tother.py\n040000 tree " + void + b"\tvoid\n"
    )
    root = git(top, "mktree", stdin=b"040000 tree " + inner.strip() + b"\tdir\n").strip()
    commit = git(top, "commit-tree", "-m", "odd", root).strip().decode()
    git(top, "reset", "-q", "--hard", commit)
    git(top, "push", "-qf", "origin", "HEAD:main")
    write(top, "new/file", b"new\n")
    proved(top, tmp_path, tmp_path / "origin.git")
    assert trees(top, tmp_path / "ours") == by_git(top, tmp_path / "theirs")


def test_what_only_git_can_tell(tmp_path: Path) -> None:
    """An entry that is intended to be added is in no tree; an empty file that was staged is in one."""
    top = new_origin(tmp_path)
    for name in ("intended", "gone", "staged", "filled"):
        write(top, name, b"")
    git(top, "add", "staged", "filled")
    git(top, "add", "-N", "intended", "gone")
    (top / "gone").unlink()
    write(top, "filled", b"now\n")
    tree = git(top, "write-tree").decode().strip()
    assert trees(top, tmp_path / "ours")[0] == tree
    assert git(top, "ls-tree", "--name-only", tree).split() == [
        b"dir",
        b"filled",
        b"kept.py",
        b"run.sh",
        b"staged",
    ]


def test_folders_in_one_another_without_end(tmp_path: Path) -> None:
    """Deeper than Python calls a function in itself."""
    top = new_origin(tmp_path)
    (tmp_path / "blob").write_bytes(b"deep\n")
    blob = git(top, "hash-object", "-w", tmp_path / "blob").decode().strip()
    row = f"100644 {blob} 0\t{'d/' * 1500}file\n"
    git(top, "update-index", "--index-info", stdin=row.encode())
    assert trees(top, tmp_path / "ours")[0] == git(top, "write-tree").decode().strip()
