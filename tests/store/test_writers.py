"""A store that other users may write to: refused, unless it is shared with them or out of their reach."""

from __future__ import annotations

import grp
import os
import stat
from pathlib import Path

import pytest

from reprobuild.cli import common
from reprobuild.errors import UsageError
from reprobuild.store.sharing import check_writers, share
from reprobuild.store.store import Store

ALICE, LAB = 12345, 12399


def refused(store: Store, said: str) -> None:
    """Check that every command refuses the store, and that the hint mends it."""
    with pytest.raises(UsageError) as caught:
        common.make_context(store.root)
    assert str(caught.value) == f"{said}, and is not shared with `reprobuild store share`"
    path = said.partition(" ")[0]
    share = "`, or share it with a group: `reprobuild store share --group NAME --store "
    hint = f"close it: `chmod go-w {path}{share}{store.root}`"
    assert caught.value.hint == hint
    before = Path(path).stat().st_mode
    Path(path).chmod(before & ~(stat.S_IWGRP | stat.S_IWOTH))
    common.make_context(store.root)
    Path(path).chmod(before)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "store")
    store.add(b"x")
    store.remember("k", 1)
    return store


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o702])
def test_one_that_all_may_write_to(store: Store, mode: int) -> None:
    store.root.chmod(mode)
    refused(store, f"{store.root} can be written to by all users")


@pytest.mark.parametrize("name", ["blobs", "made"])
def test_a_directory_in_it_that_all_may_write_to(store: Store, name: str) -> None:
    (store.root / name).chmod(0o777)
    check_writers(store)  # nobody reaches it
    store.root.chmod(0o755)
    refused(store, f"{store.root / name} can be written to by all users")


def test_one_that_a_group_may_write_to(store: Store) -> None:
    os.chown(store.root, -1, LAB)
    store.root.chmod(0o2775)
    refused(store, f"{store.root} can be written to by the group number {LAB}")


def test_sharing_mends_it(store: Store) -> None:
    store.root.chmod(0o777)
    common.make_context(store.root, sharing=True)
    share(store, grp.getgrgid(os.getgid()).gr_name)
    common.make_context(store.root)
    os.chown(store.root, -1, LAB)  # a group of several, with the ACL that `share` set
    common.make_context(store.root)


def test_those_that_stay_usable(store: Store) -> None:
    """Read-only ones, a site's, root's, one of a user with umask 002 and a group of one, and none at all."""
    for owner, group, mode in (
        (0, 0, 0o555), (ALICE, ALICE, 0o755), (ALICE, LAB, 0o2755), (0, 0, 0o755), (0, 0, 0o700),
        (0, 0, 0o775), (ALICE, ALICE, 0o775),
    ):  # fmt: skip
        os.chown(store.root, owner, group)
        store.root.chmod(mode)
        common.make_context(store.root)
    common.make_context(store.root / "not there")


def test_only_a_store_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default place, where a link leads to another directory of the same user."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    victim = tmp_path / "victim"
    victim.mkdir()
    victim.chmod(0o755)
    (tmp_path / "reprobuild").symlink_to(victim)
    common.make_context(None)
    assert victim.stat().st_mode & 0o777 == 0o755
    (victim / "blobs").mkdir()
    common.make_context(None)
    assert victim.stat().st_mode & 0o777 == 0o700


def test_a_link_among_unfinished_downloads_changes_no_rights(store: Store, tmp_path: Path) -> None:
    """A member of a shared store puts it there."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"x")
    victim.chmod(0o600)
    (tmp_path / "part").symlink_to(victim)
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        store.adopt(tmp_path / "part", "0" * 64)
    assert victim.stat().st_mode & 0o777 == 0o600
