"""Folders that a layer writes below and has no entry for, and directories that stand twice."""

from __future__ import annotations

import time
from typing import Any

import pytest

from reprobuild.errors import BuildError
from reprobuild.image.layering.merge import merge
from reprobuild.infra.tar.entries import TarEntry
from tests.image.made import file, folder, symlink
from tests.image.test_tree import REFUSED, listing

Members = list[tuple[TarEntry, bytes]]
Attributes = tuple[tuple[str, str], ...]
LOW = [
    folder("tmp", 0o1777), folder("s", 0o700), file("s/key", b""), folder("s/plain"), file("s/plain/f", b""),
    folder("own", uid=1), folder("grouped", gid=1), folder("noted", xattrs=(("user.a", "31"),)), folder("plain"),
    file("plain/f", b""),
]  # fmt: skip


def implied(path: str) -> str:
    return (
        f"a layer writes below /{path} and has no entry for it, and a lower layer has it with a mode, owner "
        "or attribute of its own: some engines show these, and others 0755 of root"
    )


def refused(*layers: Members) -> str:
    with pytest.raises(BuildError) as caught:
        merge([listing(*layer) for layer in layers])
    assert caught.value.hint == REFUSED
    return str(caught.value)


@pytest.mark.parametrize(
    ("entries", "path"),
    [
        ([file("tmp/x", b"")], "tmp"),
        ([folder("tmp/x")], "tmp"),
        ([file("own/x", b"")], "own"),
        ([file("grouped/x", b"")], "grouped"),
        ([file("noted/x", b"")], "noted"),
        ([file("s/.wh.key", b"")], "s"),
        ([file("s/.wh.nothing", b"")], "s"),
        ([file("s/.wh..wh..opq", b"")], "s"),
        ([file("s/plain/x", b"")], "s"),
        ([folder("s/plain"), file("s/plain/x", b"")], "s"),
        ([file("s/new/deep/x", b"")], "s"),
        ([file("s/plain/.wh.f", b"")], "s"),
        ([symlink("l", "s"), file("l/x", b"")], "s"),
    ],
)
def test_a_folder_of_a_lower_layer_that_is_implied(entries: Members, path: str) -> None:
    assert refused(LOW, entries) == implied(path)
    assert refused(LOW, [file("other", b"")], entries) == implied(path)


@pytest.mark.parametrize("more", [{"mode": 0o700}, {"uid": 7}, {"gid": 7}, {"xattrs": (("user.a", "31"),)}])
@pytest.mark.parametrize("entries", [[], [file("b", b"")], [file(".wh.a", b"")]])
def test_the_root_of_a_lower_layer(more: dict[str, Any], entries: Members) -> None:
    """A container has the root of the uppermost layer, also of one that is empty."""
    low = [folder("", **more), file("a", b"")]
    assert refused(low, entries) == implied("")
    assert merge([listing(*low), listing(folder("", **more), *entries)])[""] == listing(*low)[0]
    assert merge([listing(*low)])[""] == listing(*low)[0]


def test_what_builders_leave_out() -> None:
    """ko, Bazel and Jib write files without their directories; the root of Fedora is 0555."""
    for entries in (
        [file("plain/x", b"")],
        [file("new/deep/x", b"")],
        [file("plain/.wh.f", b"")],
        [file("plain/.wh.nothing", b"")],
        [file("s/x", b""), folder("s", 0o700)],
        [folder("s", 0o750), file("s/.wh.key", b"")],
        [file(".wh.s", b"")],
        [file(".wh.s", b""), file(".wh.own", b""), file("own/x", b"")],
        [symlink("tmp", "plain")],
        [file("tmp", b"")],
    ):
        merge([listing(*LOW), listing(*entries)])
        merge([listing(folder("", 0o555), *LOW), listing(*entries)])


@pytest.mark.parametrize("entries", [[file("plain/no/.wh.x", b"")], [file("plain/no/.wh..wh..opq", b"")]])
def test_a_whiteout_in_a_folder_that_is_not_there(entries: Members) -> None:
    words = "a layer holds a whiteout in /plain/no, which no layer has: some engines make that directory"
    assert refused(LOW, entries) == words
    assert refused(entries) == words
    removed = listing(file(".wh.plain", b""), *entries)
    assert "plain" not in merge([listing(*LOW), removed])
    replaced = listing(file("plain", b""), *entries)
    assert merge([listing(*LOW), replaced])["plain"].type == "file"


def test_many_deep_paths_take_time_that_grows_with_their_number() -> None:
    deep = "/".join("d" * 100)
    low = [TarEntry(path=f"{deep}/{number}/f", type="file", mode=0o644) for number in range(10_000)]
    high = [TarEntry(path=f"{deep}/{number}/.wh.f", type="file", mode=0o644) for number in range(10_000)]
    begun = time.monotonic()
    assert len(merge([low, high, low])) == 20_101
    assert time.monotonic() - begun < 10


ONE, BOTH = (("user.a", "31"),), (("user.a", "31"), ("user.b", "32"))


@pytest.mark.parametrize(("first", "second"), [(ONE, ()), ((), ONE), (ONE, (("user.a", "32"),)), (BOTH, ONE)])
def test_a_folder_twice_with_other_attributes(first: Attributes, second: Attributes) -> None:
    words = "a layer holds /d twice, with other attributes: engines that unpack it keep both"
    twice = [folder("d", xattrs=first), file("d/f", b""), folder("d", xattrs=second)]
    assert refused(twice) == refused([folder("d")], twice) == words


def test_a_folder_without_attributes_of_a_lower_layer() -> None:
    words = (
        "a layer holds /d without attributes that a lower layer gave it: engines that unpack all layers into one root "
        "keep them"
    )
    for upper in ((), (("user.b", "32"),)):
        assert refused([folder("d", xattrs=ONE)], [folder("d", xattrs=upper)]) == words


def test_folders_twice_as_builders_write_them() -> None:
    low = [folder("d", xattrs=ONE), folder("e", 0o700), folder("d", xattrs=ONE), folder("e", 0o711)]
    tree = merge([listing(*low), listing(folder("d", 0o700, xattrs=BOTH), folder("e", xattrs=ONE))])
    assert (tree["d"].xattrs, tree["d"].mode, tree["e"].xattrs) == (BOTH, 0o700, ONE)
    for removed in (file(".wh.d", b""), file("d", b"")):
        assert "user.a" not in str(merge([listing(*low), listing(removed), listing(folder("d"))])["d"])
