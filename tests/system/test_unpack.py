"""Archives that would leave their directory, and those that look like it."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from reprobuild.errors import BuildError
from reprobuild.infra.untrusted import names, tars
from reprobuild.infra.untrusted.names import HOSTILE
from reprobuild.realise.unpack import extract, unpack_root
from tests.system.samples import member, names_in, tar_bytes

HINT = "the archive was not made by a package build; find out where it came from"
Members = Sequence[tuple[tarfile.TarInfo, bytes]]
DIR, LINK, HARD = tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE


def unpack(tmp_path: Path, members: Members) -> Path:
    tar = tmp_path / "a.tar"
    tar.write_bytes(tar_bytes(members))
    root = tmp_path / "root"
    root.mkdir()
    unpack_root(tar, root)
    return root


@pytest.mark.parametrize(
    "members",
    [
        [(member("../outside"), b"x")],
        [(member("a/../../outside"), b"x")],
        [(member("a", DIR), b""), (member("a/b"), b""), (member("a/.."), b"x")],
        [(member("link", LINK, "/"), b""), (member("link/outside"), b"x")],
        [(member("link", LINK, ".."), b""), (member("link/outside"), b"x")],
        [(member("a", LINK, "b"), b""), (member("b", LINK, "../.."), b""), (member("a/outside"), b"x")],
        [(member("h", HARD, "../secret"), b"")],
        [(member("l", LINK, ".."), b""), (member("h", HARD, "l/secret"), b"")],
        # A link that is replaced by another, after a directory was seen to lie inside through it.
        [
            (member("usr/bin", DIR), b""), (member("bin", LINK, "usr/bin"), b""), (member("bin/a"), b""),
            (member("bin", LINK, ".."), b""), (member("bin/outside"), b"x"),
        ],
        [(member("a", LINK, "b"), b""), (member("b", LINK, "a"), b""), (member("a/x"), b"")],
    ],
)  # fmt: skip
def test_nothing_leaves_the_folder(tmp_path: Path, members: Members) -> None:
    (tmp_path / "secret").write_text("s")
    with pytest.raises(BuildError, match="holds a path that leaves its directory") as err:
        unpack(tmp_path, members)
    assert err.value.hint == HINT
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.tar", "root", "secret"]


def test_an_absolute_name_is_below_the_folder(tmp_path: Path) -> None:
    root = unpack(tmp_path, [(member("/etc/made"), b"x")])
    assert names_in(root) == ["etc", "etc/made"]


def test_a_link_is_never_written_through(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s")
    root = unpack(tmp_path, [(member("f", LINK, "../secret"), b""), (member("f"), b"new")])
    assert (tmp_path / "secret").read_text() == "s"
    assert (root / "f").read_text() == "new"
    assert not (root / "f").is_symlink()


def test_a_folder_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="would put a file in the place of the directory d") as err:
        unpack(tmp_path, [(member("d", DIR), b""), (member("d"), b"x")])
    assert err.value.hint == HINT


def test_links_inside_are_followed_as_a_merged_usr_needs(tmp_path: Path) -> None:
    root = unpack(
        tmp_path,
        [(member("usr/bin", DIR), b""), (member("bin", LINK, "usr/bin"), b""), (member("bin/sh"), b"#!")],
    )
    assert (root / "usr/bin/sh").read_bytes() == b"#!"


def test_modes_are_kept_but_for_what_gives_rights_or_locks_out(tmp_path: Path) -> None:
    previous = os.umask(0o077)
    try:
        root = unpack(
            tmp_path,
            [
                (member("deep/er/f", mode=0o4755), b""), (member("r", mode=0o444), b""),
                (member("d", DIR, mode=0o1777), b""), (member("e", DIR, mode=0o2550), b""),
            ],
        )  # fmt: skip
    finally:
        os.umask(previous)
    modes = {name: oct((root / name).stat().st_mode & 0o7777) for name in names_in(root)}
    assert modes == {
        "deep": "0o755", "deep/er": "0o755", "deep/er/f": "0o755", "r": "0o644", "d": "0o1777", "e": "0o750",
    }  # fmt: skip


def test_hard_links_are_one_file_and_devices_are_left_out(tmp_path: Path) -> None:
    root = unpack(
        tmp_path,
        [(member("a"), b"x"), (member("b", HARD, "./a"), b""), (member("null", tarfile.CHRTYPE), b"")],
    )
    assert names_in(root) == ["a", "b"]
    assert (root / "a").stat().st_ino == (root / "b").stat().st_ino


def test_the_samples_are_read_as_they_were_written() -> None:
    with tarfile.open(fileobj=io.BytesIO(tar_bytes([(member("../x"), b"y")]))) as tar:
        assert tar.getnames() == ["../x"]


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([(member("f"), b""), (member("f/x"), b"")], "'f/x', which cannot be unpacked"),
        ([(member("f"), b""), (member("f/x", DIR), b"")], "'f/x', which cannot be unpacked"),
        ([(member("f"), b""), (member("f", DIR), b"")], "'f', which cannot be unpacked"),
        ([(member("h", HARD, "nowhere"), b"")], "'h', which cannot be unpacked: No such file"),
        ([(member("d", DIR), b""), (member("h", HARD, "d"), b"")], "'h', which cannot be unpacked"),
        ([(member("n" * 256), b"")], "of 256 bytes"),
        ([(member("n/" * 2048 + "n"), b"")], "of 4097 bytes"),
        ([(member("l", LINK, ""), b"")], "'l', a link to the impossible ''"),
        ([(member("l", LINK, "t" * 5000), b"")], "'l', a link to the impossible"),
        ([(member("s", tarfile.GNUTYPE_SPARSE), b"")], "'s', a sparse file"),
    ],
)
def test_what_cannot_be_is_refused_by_name(tmp_path: Path, members: Members, words: str) -> None:
    with pytest.raises(BuildError, match=r"^a\.tar") as err:
        unpack(tmp_path, members)
    assert words in str(err.value)
    assert err.value.hint in (HINT, HOSTILE)


def test_a_backslash_is_a_character(tmp_path: Path) -> None:
    """systemd has units named so."""
    assert names_in(unpack(tmp_path, [(member("back\\slash"), b"x")])) == ["back\\slash"]


def test_a_compressed_archive_may_not_unpack_to_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = tar_bytes([(member(f"f{n}"), bytes(5000)) for n in range(20)])
    monkeypatch.setattr(names, "ALLOWANCE", 10_000)
    for packed, refused in ((1000, False), (100, True)):
        root = tmp_path / str(packed)
        root.mkdir()
        with tars.open_stream(io.BytesIO(content)) as tar:
            if not refused:
                extract(tar, root, "a.deb", packed=packed)
                assert len(names_in(root)) == 20
                continue
            with pytest.raises(
                BuildError, match=r"a\.deb has 100 bytes and unpacks to more than 30000"
            ) as err:
                extract(tar, root, "a.deb", packed=packed)
        assert err.value.hint == HOSTILE
        assert len(names_in(root)) <= 6


def test_there_may_not_be_any_number_of_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tars, "MOST_MEMBERS", 10)
    with pytest.raises(BuildError, match=r"a\.tar holds more than 10 members"):
        unpack(tmp_path, [(member(f"f{n}"), b"") for n in range(11)])
