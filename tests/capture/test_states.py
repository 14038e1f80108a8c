"""Repositories in every state: captured, restored, and nothing lost."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from unittest import mock

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, note, settings

from reprobuild.snapshot.parsers.capture_json import load_capture
from reprobuild_runtime import capture
from tests.capture.repositories import git, new_origin, place, proved, write

NAMES = [
    "kept.py", "dir/inner.py", "run.sh", "new.py", "with space", 'quote"s', "back\\slash", "new\nline", "tab\tname",
    "-leading", "ünïcode/ß.py", b"latin\xff", "a:b", ".hidden", "'single'", "#hash", "*glob?", "[x]", "dir/new.bin",
    "deep/er/and/deeper", "trailing ", '"all quoted"',
]  # fmt: skip
CONTENTS = [
    b"", b"text\n", b"no end of line", b"dos\r\nlines\r\n", b"mixed\r\nlines\n", bytes(range(256)) * 4,
    b"two\n" * 20 + b"three\n", b"\xff\xfeU\0T\0F\0", b"\n" * 3 + b" \t\n",
]  # fmt: skip
KINDS = [
    "write", "write", "delete", "chmod", "link", "folder", "add", "add", "remove", "move", "commit", "push", "merge",
    "intend", "assume", "ignore", "skip",
]  # fmt: skip
STATES = ["clone", "clone", "alone", "detached", "shallow", "worktree", "unborn", "autocrlf", "attributes"]


@st.composite
def steps(draw: st.DrawFn) -> list[tuple[str, str | bytes, bytes]]:
    one = st.tuples(st.sampled_from(KINDS), st.sampled_from(NAMES), st.sampled_from(CONTENTS))
    return draw(st.lists(one, min_size=1, max_size=9))


def start(state: str, folder: Path) -> tuple[Path, Path | None]:
    """Return a work tree in a state, and where the commits are that a remote has."""
    top = new_origin(folder)
    origin = folder / "origin.git"
    if state == "alone":
        git(top, "remote", "remove", "origin")
        return top, None
    if state == "detached":
        git(top, "checkout", "-q", "--detach")
    elif state == "shallow":
        write(top, "kept.py", b"second\n")
        git(top, "commit", "-qam", "second")
        git(top, "push", "-q")
        git(folder, "clone", "-q", "--depth", "1", f"file://{origin}", folder / "shallow")
        return folder / "shallow", origin
    elif state == "worktree":
        git(top, "worktree", "add", "-q", "-b", "other", folder / "linked")
        return folder / "linked", origin
    elif state == "unborn":
        (folder / "unborn").mkdir()
        git(folder / "unborn", "init", "-q", ".")
        return folder / "unborn", None
    elif state == "autocrlf":
        git(top, "config", "core.autocrlf", "true")
        git(top, "checkout", "-q", "HEAD", "--", ".")
    elif state == "attributes":
        write(top, ".gitattributes", b"*.py text eol=crlf\n*.bin binary\n*.sh ident\n")
        git(top, "add", "-A")
        git(top, "commit", "-qm", "attributes")
    return top, origin


def step(top: Path, kind: str, name: str | bytes, content: bytes) -> None:
    """Do one thing to a work tree; what cannot be done there does nothing."""
    path = place(top, name)
    if any(above.is_file() or above.is_symlink() for above in path.parents if above.is_relative_to(top)):
        return
    if kind == "write" and not path.is_dir():
        path.unlink(missing_ok=True)
        write(top, name, content)
    elif kind == "delete" and not path.is_dir():
        path.unlink(missing_ok=True)
    elif kind == "chmod" and path.is_file() and not path.is_symlink():
        path.chmod(path.stat().st_mode ^ 0o111)
    elif kind == "link" and not path.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(os.fsdecode(content.replace(b"\0", b"")[:50]) or "nowhere")
    elif kind == "folder" and not path.is_dir():
        path.unlink(missing_ok=True)
        write(path, "inside", content)
    elif kind in ("add", "remove", "intend", "assume", "skip"):
        words = {
            "add": ("add",),
            "remove": ("rm", "-q", "--cached"),
            "intend": ("add", "-N"),
            "assume": ("update-index", "--assume-unchanged"),
            "skip": ("update-index", "--skip-worktree"),
        }[kind]
        git(top, "--literal-pathspecs", *words, "--", name, fails=True)
    elif kind == "move" and path.is_file():
        git(top, "--literal-pathspecs", "mv", "--", name, os.fsencode(name) + b" moved", fails=True)
    elif kind == "commit":
        git(top, "commit", "-q", "-m", "more", fails=True)
    elif kind == "push":
        git(top, "push", "-q", "origin", "HEAD", fails=True)
    elif kind == "merge":
        git(top, "merge", "-q", "-m", "merged", "side", fails=True)
    elif kind == "ignore":
        write(top, ".gitignore", b"*.ignored\n")
        write(top, "x.ignored", content)


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(STATES), st.booleans(), steps())
def test_any_state_is_restored(state: str, side: bool, done: list[tuple[str, str | bytes, bytes]]) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        top, origin = start(state, folder)
        if side and state not in ("unborn", "shallow"):
            before = git(top, "rev-parse", "HEAD").decode().strip()
            git(top, "checkout", "-q", "-b", "side")
            write(top, "kept.py", b"from the side\n")
            git(top, "commit", "-qam", "side")
            git(
                top,
                "checkout",
                "-q",
                "--detach" if state == "detached" else "-B",
                *([] if state == "detached" else ["back"]),
                before,
            )
        for one in done:
            step(top, *one)
        note(repr(git(top, "status", "--porcelain", fails=True)))
        proved(top, folder, origin)


def pushed_branch(folder: Path, commits: int = 2) -> tuple[Path, Path]:
    """Return a clone on a branch with commits of its own that are pushed, and the bare repository."""
    top, origin = new_origin(folder), folder / "origin.git"
    main = git(top, "rev-parse", "--abbrev-ref", "HEAD").decode().strip()
    git(top, "branch", "-m", main, "main")
    git(top, "push", "-q", "origin", "main")
    git(top, "fetch", "-q", "--prune")
    git(top, "checkout", "-q", "-b", "feature")
    for number in range(commits):
        write(top, "feature.py", f"step = {number}\n".encode())
        git(top, "add", "-A")
        git(top, "commit", "-qm", f"step {number}")
    git(top, "push", "-q", "origin", "feature")
    return top, origin


@pytest.mark.parametrize("dirty", [False, True])
def test_a_branch_that_the_remote_deletes_after_its_merge(dirty: bool, tmp_path: Path) -> None:
    """A squashed merge leaves none of its commits with the remote: the bundle has them."""
    top, origin = pushed_branch(tmp_path)
    if dirty:
        write(top, "kept.py", b"changed\n")
    git(origin, "branch", "-D", "feature")
    git(origin, "reflog", "expire", "--expire=now", "--all")
    git(origin, "gc", "-q", "--prune=now")
    snapshot = proved(top, tmp_path, origin)
    (repository,) = load_capture(snapshot).repositories
    main = git(top, "rev-parse", "main").decode().strip()
    assert repository.prerequisites == (main,)
    assert repository.base == repository.head != main  # what a remote has, as far as the clone knows


def test_a_branch_that_is_merged_needs_no_bundle(tmp_path: Path) -> None:
    top, origin = pushed_branch(tmp_path)
    git(top, "push", "-q", "origin", "feature:main")
    git(top, "fetch", "-q")
    snapshot = proved(top, tmp_path, origin)
    (repository,) = load_capture(snapshot).repositories
    assert (repository.bundle, repository.prerequisites) == (None, (repository.head,))


def test_a_branch_of_very_many_commits_is_left_to_its_remote(tmp_path: Path) -> None:
    top, origin = pushed_branch(tmp_path)
    with mock.patch.object(capture, "MOST_COMMITS", 1):
        snapshot = proved(top, tmp_path, origin)
    (repository,) = load_capture(snapshot).repositories
    assert (repository.bundle, repository.prerequisites) == (None, (repository.head,))


def test_a_new_script_stays_executable_where_git_does_not_look(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    git(top, "config", "core.fileMode", "false")
    write(top, "tool.sh", b"#!/bin/sh\n")
    (top / "tool.sh").chmod(0o755)
    write(top, "plain.txt", b"1\n")
    (top / "plain.txt").chmod(0o644)
    proved(top, tmp_path, tmp_path / "origin.git")
    assert (tmp_path / "again" / "tool.sh").stat().st_mode & 0o111 == 0o111
    assert (tmp_path / "again" / "plain.txt").stat().st_mode & 0o111 == 0
