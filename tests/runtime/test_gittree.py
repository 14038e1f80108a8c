"""The tree id of a directory is git's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT))

from reprobuild_runtime.gittree import tree_id


def git(folder: Path, *arguments: str) -> str:
    quiet = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"]}
    return subprocess.run(
        ["git", "-C", str(folder), *arguments], env=quiet, capture_output=True, text=True, check=True
    ).stdout.strip()


def write_tree(folder: Path) -> str:
    git(folder, "add", "--all", "--force", ".")
    return git(folder, "write-tree")


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    folder = tmp_path / "sample"
    folder.mkdir()
    git(folder, "init", "-q")
    for name in (
        "a-b",
        "a.b",
        "a0",
        "a/inner/deep.txt",
        "ab",
        "b/x",
        "b.txt",
        "naïve/漢字.txt",
        "with space\n",
        ".dot",
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name}\r\n")
    (folder / "empty-file").touch()
    (folder / "empty/folder").mkdir(parents=True)
    (folder / "big").write_bytes(os.urandom(3 << 20))
    Path(os.fsdecode(os.fsencode(folder) + b"/not-utf8-\xff")).write_text("x")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "group-only").write_text("x")
    (folder / "group-only").chmod(0o654)
    (folder / "link").symlink_to("a/inner")
    (folder / "dangling").symlink_to("nowhere/at/all")
    return folder


def test_equals_write_tree(sample: Path) -> None:
    assert tree_id(str(sample)) == write_tree(sample)


def test_each_change_changes_it(sample: Path) -> None:
    seen = {tree_id(str(sample))}
    (sample / "a0").write_text("other")
    seen.add(tree_id(str(sample)))
    (sample / "a0").chmod(0o755)
    seen.add(tree_id(str(sample)))
    (sample / "link").unlink()
    (sample / "link").symlink_to("a")
    seen.add(tree_id(str(sample)))
    (sample / "a0").rename(sample / "a1")
    seen.add(tree_id(str(sample)))
    assert len(seen) == 5
    assert tree_id(str(sample)) == write_tree(sample)


def test_times_and_other_bits_do_not_change_it(sample: Path) -> None:
    before = tree_id(str(sample))
    os.utime(sample / "a0", (0, 0))
    (sample / "a0").chmod(0o600)
    os.mkfifo(sample / "pipe")
    assert tree_id(str(sample)) == before


def test_generated_files_are_left_out(sample: Path) -> None:
    before = write_tree(sample)
    for name in (
        "a/__pycache__/x.pyc",
        "name.egg-info/PKG-INFO",
        "a/inner/_C.so",
        "build/lib/x",
        "b/build/kept",
    ):
        (sample / name).parent.mkdir(parents=True, exist_ok=True)
        (sample / name).write_text("made")
    (sample / "b/build/kept").unlink()
    assert tree_id(str(sample)) != before
    assert tree_id(str(sample), ["*.egg-info", "*.so", "build/"]) == before
    (sample / "b/build/kept").write_text("made")
    assert tree_id(str(sample), ["*.egg-info", "*.so", "/build"]) != before


def test_empty_folder(tmp_path: Path) -> None:
    assert tree_id(str(tmp_path)) == "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
