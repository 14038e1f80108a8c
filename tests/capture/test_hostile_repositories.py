"""Repositories that somebody prepared: hooks of a configuration, other repositories, pipes, absurd numbers."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from reprobuild_runtime import capture
from tests.capture.repositories import git, new_origin, proved, take, write
from tests.capture.test_repositories import private, record, refused, taken
from tests.snapshot.samples import SECRETS

__all__ = ["private"]  # a fixture
SECRET = f'token = "{SECRETS["github"]}"\n'.encode()
HOOKED = (2, 54)  # the first git with hooks in its configuration


def git_version() -> tuple[int, ...]:
    found = re.search(rb"(\d+)\.(\d+)", git(Path("/"), "--version"))
    assert found
    return tuple(map(int, found.groups()))


def change_form(top: Path, kind: str) -> None:
    if kind == "sparse":
        git(top, "sparse-checkout", "set", "--cone", "--sparse-index", "dir")
    if kind == "split":
        git(top, "update-index", "--split-index")


def write_each_index(folder: Path, kind: str) -> Path:
    """Make a repository for which a capture writes an index in each place of its code."""
    files = {"removed.py": SECRET, "staged.py": b"one\n", "dir/kept.py": b"two\n" * 20, "else/x.py": b"x\n"}
    top = new_origin(folder, files)
    change_form(top, kind)
    (top / "removed.py").unlink()
    write(top, "staged.py", SECRET)
    write(top, "dir/empty.py", b"")
    git(top, "add", "staged.py", "dir/empty.py")
    write(top, "staged.py", b"three\n")
    write(top, "dir/empty.py", b"four\n")
    return top


WRITERS = {"update-index", "read-tree", "write-tree"}


@pytest.mark.parametrize("kind", ["full", "split", "sparse"])
def test_no_configuration_counts_where_an_index_is_written(kind: str, tmp_path: Path) -> None:
    """A configured hook would run there, whatever `core.hooksPath` says."""
    top = write_each_index(tmp_path, kind)
    seen: dict[str, set[bool]] = {}
    run = capture._run

    def note(argv: list[str], *words: Any, **more: Any) -> bytes:
        quiet = more["env"].get("GIT_CONFIG_GLOBAL") == "/dev/null" and "GIT_CONFIG_NOSYSTEM" in more["env"]
        for command in WRITERS & set(argv):
            ours = not any(str(top) in word for word in (*argv, more["cwd"]))
            seen.setdefault(command, set()).add(ours and quiet)
        return run(argv, *words, **more)

    with mock.patch.object(capture, "_run", note):
        take(top, tmp_path / "snapshot")
    assert seen == {command: {True} for command in WRITERS}


@pytest.mark.parametrize("kind", ["full", "split", "sparse"])
def test_configured_hooks_do_not_run(kind: str, tmp_path: Path) -> None:
    top = write_each_index(tmp_path, kind)
    for name in ("x", "with=sign"):
        for event in ("post-index-change", "reference-transaction", "pre-commit"):
            git(top, "config", "--add", f"hook.{name}.event", event)
        git(top, "config", f"hook.{name}.command", f"touch {tmp_path}/ran; :")
    take(top, tmp_path / "snapshot")
    assert not (tmp_path / "ran").exists()
    git(top, "update-index", "--force-write-index")
    assert (tmp_path / "ran").exists() == (git_version() >= HOOKED)


@pytest.mark.parametrize("kind", ["full", "split", "sparse"])
def test_an_index_of_any_form_is_captured(kind: str, tmp_path: Path) -> None:
    """A path so deep that git itself makes the trees."""
    top = new_origin(tmp_path, {"dir/kept.py": b"two\n" * 20, "else/x.py": b"x\n", "kept.py": b"one\n"})
    change_form(top, kind)
    write(top, "dir/" + "d/" * 201 + "deep.py", b"deep\n")
    write(top, "kept.py", b"staged\n")
    git(top, "add", "kept.py")
    write(top, "kept.py", b"changed\n")
    proved(top, tmp_path, tmp_path / "origin.git", times=kind == "full")


def test_paths_that_only_a_setting_admits(tmp_path: Path) -> None:
    """`core.protectNTFS` refuses a backslash in names."""
    top = new_origin(tmp_path)
    git(top, "config", "core.protectNTFS", "false")
    write(top, "a\\b", b"one\n")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "a backslash")
    write(top, "a\\b", b"two\n")
    write(top, "dir/" + "d/" * 201 + "deep.py", b"deep\n")
    take(top, tmp_path / "snapshot")
    assert record(tmp_path / "snapshot")["changed"] == {"count": 1, "paths": ['"a\\\\b"']}


def borrowing(folder: Path, private: Path) -> Path:
    """Make a directory whose repository has the commits of a private one, by nothing but text."""
    job = folder / "job"
    job.mkdir()
    git(job, "init", "-q", "-b", "main", ".")
    (job / ".git" / "refs" / "heads" / "main").write_bytes(git(private, "rev-parse", "HEAD"))
    return job


@pytest.mark.parametrize(
    "text",
    ["{}\n", "# a comment\n\n{}", '"{}"\n', "../../../private/clone/.git/objects\n", "inner\n"],
)
def test_objects_that_a_list_of_text_names(text: str, tmp_path: Path, private: Path) -> None:
    job = borrowing(tmp_path, private)
    alternates = job / ".git" / "objects" / "info" / "alternates"
    alternates.write_text(text.format(private / ".git" / "objects"))
    if text == "inner\n":
        inner = job / ".git" / "objects" / "inner" / "info"
        inner.mkdir(parents=True)
        (inner / "alternates").write_text(f"{private / '.git' / 'objects'}\n")
    assert git(job, "log", "--format=%s").startswith(b"secret plan")
    refused(job, tmp_path / "out", f"`git config --global --add safe.directory {job}` admits them")


@pytest.mark.parametrize("content", [b"\0\n", b"#" * (1 << 16)])
def test_a_list_of_objects_that_no_git_writes(content: bytes, tmp_path: Path, private: Path) -> None:
    job = borrowing(tmp_path, private)
    (job / ".git" / "objects" / "info" / "alternates").write_bytes(content)
    refused(job, tmp_path / "out", "objects of another repository")


def test_objects_within_the_git_directory_are_its_own(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    write(top, "kept.py", b"changed\n")
    objects = top / ".git" / "objects"
    (objects / "more" / "info").mkdir(parents=True)
    (objects / "pack").rename(objects / "more" / "pack")
    (objects / "info" / "alternates").write_text(f"# ours\n{objects / 'more'}\n")
    (objects / "more" / "info" / "alternates").write_text(f"{objects}\n")
    proved(top, tmp_path, tmp_path / "origin.git")


def test_a_link_to_a_directory_with_links(tmp_path: Path, private: Path) -> None:
    """The first one leads to a directory that is no part of refs and objects."""
    job = borrowing(tmp_path, private)
    git(private, "repack", "-adq")
    (job / ".git" / "objects" / "pack").rmdir()
    (job / ".git" / "objects" / "pack").symlink_to("../more")
    (job / ".git" / "more").mkdir()
    for path in (private / ".git" / "objects" / "pack").iterdir():
        (job / ".git" / "more" / path.name).symlink_to(path)
    assert git(job, "log", "--format=%s").startswith(b"secret plan")
    refused(job, tmp_path / "out", "is a link out of the git directory")


@pytest.mark.parametrize("included", [True, False])
def test_refs_that_a_setting_names(included: bool, tmp_path: Path, private: Path) -> None:
    """git 2.54 and newer follow it; older ones refuse the repository."""
    job = tmp_path / "job"
    job.mkdir()
    git(job, "init", "-q", "-b", "main", ".")
    place = job / ".git" / ("more" if included else "config")
    for key, value in (
        ("core.repositoryformatversion", "0" if included else "1"),
        ("extensions.refStorage", f"files://{private}/.git"),
    ):
        git(tmp_path, "config", "--file", place, key, value)
    if included:
        git(job, "config", "include.path", "more")
    found = taken(job, tmp_path / "out")
    assert found["repositories"] == []
    assert "secret plan" not in (tmp_path / "out" / "capture.json").read_text()
    part = found["parts"]["repository job"]
    if included or git_version() >= HOOKED:
        assert part["why"] == f"its `extensions.refStorage` leads to files://{private}/.git"


def test_remotes_of_an_included_configuration(tmp_path: Path, private: Path) -> None:
    git(private, "remote", "set-url", "origin", "https://git.example.org/secret/plan.git")
    job = tmp_path / "job"
    job.mkdir()
    git(job, "init", "-q", "-b", "main", ".")
    git(job, "remote", "add", "mine", "https://git.example.org/mine.git")
    git(job, "config", "include.path", private / ".git" / "config")
    write(job, "new", b"new\n")
    take(job, tmp_path / "out")
    assert record(tmp_path / "out")["remotes"] == [
        {"name": "mine", "url": "https://git.example.org/mine.git"}
    ]
    assert "secret/plan" not in (tmp_path / "out" / "capture.json").read_text()


PIPES = [
    "commondir", "config", "index", "packed-refs", "info/exclude", "info/attributes", "objects/info/alternates",
    "refs/heads/other", "objects/pack/x.pack", f"sharedindex.{'0' * 40}",
]  # fmt: skip


@pytest.mark.parametrize("name", PIPES)
def test_a_pipe_in_a_git_directory(name: str, tmp_path: Path) -> None:
    """git would wait for another end of it."""
    top = new_origin(tmp_path)
    place = top / ".git" / name
    place.parent.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)
    os.mkfifo(place)
    begin = time.monotonic()
    found = taken(top, tmp_path / "out")
    assert time.monotonic() - begin < 5
    assert found["repositories"] == []
    assert found["parts"]["repository clone"]["why"].endswith(f"/.git/{name} is no regular file")


def test_a_pipe_in_place_of_a_snapshot(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    (top / "d").mkdir()
    (top / "d" / "capture.json").symlink_to(tmp_path / "pipe")
    begin = time.monotonic()
    take(top, tmp_path / "out")
    assert time.monotonic() - begin < 5
    assert record(tmp_path / "out")["untracked"] == {"count": 1, "paths": ["d/capture.json"]}


def test_a_pointer_with_an_endless_size(tmp_path: Path) -> None:
    """Python refuses to read a number of 5,000 digits."""
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize %s\n" % (0, b"9" * 5000)
    top = new_origin(tmp_path, {"big.bin": pointer, "kept.py": b"one\n"})
    write(top, ".git/info/attributes", b"*.bin filter=lfs\n")
    git(top, "config", "filter.lfs.clean", "cat")
    write(top, "big.bin", b"x\n")
    take(top, tmp_path / "out")
    assert record(tmp_path / "out")["changed"] == {"count": 1, "paths": ["big.bin"]}
