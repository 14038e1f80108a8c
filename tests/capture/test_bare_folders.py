"""The directories of a tree that git takes for repositories are named, also those that share one by `commondir`."""

from __future__ import annotations

import pytest

from reprobuild.ecosystems.git.restore.files import TreeFile, bare_repositories


def test_a_captured_repository_can_be_a_part_of_one() -> None:
    files = [TreeFile(b"100644", b"0" * 40, 1, path) for path in (b"x/HEAD", b"x/config", b"x/refs/keep")]
    assert bare_repositories(files) == ()
    assert bare_repositories(files, {b"x/objects"}) == ("x",)
    assert bare_repositories(files, {b"x/objects/deep", b"y"}) == ("x",)


@pytest.mark.parametrize(
    ("paths", "folders"),
    [
        (("x/HEAD", "x/objects/a", "x/refs/b"), ("x",)),
        (
            ("data/HEAD", "data/commondir", "common/config", "common/objects/a", "common/refs/b"),
            ("common", "data"),
        ),
        (("a/b/Head", "a/b/CommonDir"), ("a/b",)),
        (("HEAD", "commondir"), (".",)),
        (("x/HEAD", "x/objects/a"), ()),
        (("x/config", "x/objects/a", "y/refs/b"), ()),
        (("x/commondir", "x/config"), ()),
    ],
)
def test_folders_with_the_configuration_of_a_repository(
    paths: tuple[str, ...], folders: tuple[str, ...]
) -> None:
    files = [TreeFile(b"100644", b"0" * 40, 1, path.encode()) for path in paths]
    assert bare_repositories(files) == folders
