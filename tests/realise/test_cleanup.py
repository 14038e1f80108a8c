"""What an installation leaves behind is taken out of the base, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprobuild.errors import BuildError
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.infra.tar.reading import list_tar
from reprobuild.realise import java
from reprobuild.realise.cleanup import LEFTOVERS, leftover_of
from reprobuild.realise.normalise import rewrite
from tests.image.made import file, make_tar


@pytest.mark.parametrize(
    ("path", "left"),
    [
        ("var/log/dpkg.log", True),
        ("var/log/apt/history.log", True),
        ("var/logs/x", False),
        ("var/cache/man/index.db", True),
        ("var/cache/man/de/index.db", True),
        ("var/cache/man/CACHEDIR.TAG", False),
        ("var/cache/ldconfig/aux-cache", True),
        ("etc/ssh/ssh_host_rsa_key.pub", True),
        ("etc/ssh/ssh_host_x/y", False),
        ("etc/ssh/ssh_config", False),
        ("etc/machine-id", True),
        ("usr/etc/machine-id", False),
        ("var/lib/dpkg/status-old", False),
    ],
)
def test_patterns(path: str, left: bool) -> None:
    assert (leftover_of(TarEntry(path=path, type="file", mode=0o644)) is not None) is left
    assert leftover_of(TarEntry(path=path, type="directory", mode=0o755)) is None
    assert leftover_of(TarEntry(path=path, type="symlink", mode=0o777, target="x")) is None


def test_each_line_says_why() -> None:
    assert all(len(line.why) > 20 for line in LEFTOVERS)
    assert len({line.pattern for line in LEFTOVERS}) == len(LEFTOVERS)


def test_files_are_removed_or_emptied_and_folders_stay(tmp_path: Path) -> None:
    found, tree = tmp_path / "found.tar", tmp_path / "tree.tar"
    entries = [
        (TarEntry(path="var/log", type="directory", mode=0o775, gid=4), b""),
        file("var/log/dpkg.log", b"2026-01-02"),
        file("etc/machine-id", b"0123\n", 0o444),
        file("etc/kept", b"x"),
    ]
    found.write_bytes(make_tar(entries))
    listing = rewrite(found, tree, 0)
    with tree.open("rb") as stream:
        written = list(list_tar(stream))
    assert written == listing
    assert [(entry.path, entry.size, oct(entry.mode), entry.gid) for entry in written] == [
        ("var/log", 0, "0o775", 4), ("etc/machine-id", 0, "0o444", 0), ("etc/kept", 1, "0o644", 0),
    ]  # fmt: skip


def test_a_large_certificate_store_is_passed_on_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, tree = tmp_path / "found.tar", tmp_path / "tree.tar"
    found.write_bytes(make_tar([file(java.PATH, b"x" * (java.LARGEST + 1))]))
    monkeypatch.setattr(java, "with_time", lambda *_: pytest.fail("it was read whole"))
    assert rewrite(found, tree, 0)[-1].size == java.LARGEST + 1
    found.write_bytes(make_tar([file(java.PATH, b"x")]))
    with pytest.raises(pytest.fail.Exception):
        rewrite(found, tree, 0)


def test_a_hard_link_to_what_is_removed_is_no_base(tmp_path: Path) -> None:
    found = tmp_path / "found.tar"
    link = TarEntry(path="usr/x", type="hardlink", mode=0o644, target="var/log/x")
    found.write_bytes(make_tar([file("var/log/x", b"x"), (link, b"")]))
    with pytest.raises(BuildError, match="/usr/x, a link to /var/log/x, which is removed") as caught:
        rewrite(found, tmp_path / "tree.tar", 0)
    assert caught.value.hint == (
        "one of the packages makes it, which none of Debian's does; leave it out with `--drop NAME`"
    )
