"""Plain files below a directory of others: no link on the way is followed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reprobuild.infra.untrusted.regular_files import open_within


@pytest.fixture
def top(tmp_path: Path) -> Path:
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "file").write_bytes(b"private")
    top = tmp_path / "top"
    (top / "a" / "b").mkdir(parents=True)
    (top / "a" / "b" / "file").write_bytes(b"content")
    return top


def test_a_file_below_a_directory(top: Path) -> None:
    """A link may lead to the directory itself: the user named it."""
    (top.parent / "named").symlink_to(top)
    for folder in (top, top.parent / "named"):
        stream, size = open_within(folder, "a/b/file")
        with stream:
            assert (stream.read(), size) == (b"content", 7)


def test_no_link_and_no_other_kind_of_file_is_opened(top: Path) -> None:
    (top / "linked").symlink_to(top.parent / "private")
    (top / "a" / "linked").symlink_to(top.parent / "private")
    (top / "a" / "file").symlink_to(top.parent / "private" / "file")
    (top / "within").symlink_to("a/b")
    os.mkfifo(top / "a" / "pipe")
    for path in (
        "linked/file",
        "a/linked/file",
        "a/file",
        "within/file",
        "a/pipe",
        "a/b",
        "none",
        "a/b/file/x",
    ):
        with pytest.raises(OSError):
            open_within(top, path)


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "../private/file", "a/../a/b/file", "a//b/file", "./a", "a\0"]
)
def test_what_is_no_path_below_a_directory(path: str, top: Path) -> None:
    with pytest.raises(OSError, match="this is no path"):
        open_within(top, path)
