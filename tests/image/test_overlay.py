"""Layers of which engines make different trees: by overlays, as Docker and containerd, or in one root."""

from __future__ import annotations

import pytest

from reprobuild.errors import BuildError
from reprobuild.image.layering.merge import merge
from reprobuild.infra.tar.entries import TarEntry
from tests.image.made import file, folder, symlink
from tests.image.test_tree import REFUSED, listing

Members = list[tuple[TarEntry, bytes]]
LOW = [
    folder("d"), file("d/good", b"g"), file("d/bad", b"b"), folder("d/s"), file("d/s/t", b""), folder("empty"),
    folder("usr"), folder("usr/lib"), file("usr/lib/a", b""), symlink("lib", "usr/lib"), file("f", b""),
]  # fmt: skip
AGAIN = [folder("d"), file("d/good", b"g")]


def refused(*layers: Members) -> str:
    with pytest.raises(BuildError) as caught:
        merge([listing(*layer) for layer in layers])
    assert caught.value.hint == REFUSED
    what, _, why = str(caught.value).partition(": ")
    assert why == (
        "engines that mount layers over each other show another tree there than those that unpack all layers into one "
        "root"
    )
    return what


@pytest.mark.parametrize(
    "entries",
    [
        [file("d", b""), *AGAIN],
        [symlink("d", "nowhere"), *AGAIN],
        [folder("d"), file("d", b""), *AGAIN],
        [file("d/.wh..wh..opq", b""), file("d", b""), *AGAIN],
        [file("d", b""), folder("d"), file("d/.wh.bad", b"")],
    ],
)
def test_a_folder_that_another_file_replaces_in_between(entries: Members) -> None:
    assert (
        refused(LOW, entries)
        == "a layer holds /d as a directory and as another file, and a lower layer has the directory"
    )


@pytest.mark.parametrize(
    "entries",
    [
        [file(".wh.d", b""), *AGAIN],
        [file(".wh.d", b""), file("d/good", b"g")],
        [file(".wh.d", b""), *AGAIN, file("d/bad", b""), folder("d/s")],
        [file(".wh.d", b""), file("d", b""), *AGAIN],
        [file(".wh.d", b""), *AGAIN, file("d/.wh.bad", b""), folder("d/s")],
        [file(".wh.d", b""), *AGAIN, file("d/.wh.bad", b""), folder("d/s"), file("d/s/.wh.t", b""), file("d/s", b""),
         folder("d/s")],
    ],
)  # fmt: skip
def test_a_folder_beside_its_whiteout(entries: Members) -> None:
    assert (
        refused(LOW, entries)
        == "a layer holds /d and its whiteout, and a lower layer has files in that directory"
    )


def test_a_folder_below_one_beside_its_whiteout() -> None:
    low = [folder("p"), folder("p/d"), file("p/d/good", b"g"), file("p/d/bad", b"b")]
    high = [file(".wh.p", b""), folder("p"), folder("p/d"), file("p/d/good", b"g")]
    assert refused(low, high).startswith("a layer holds /p and its whiteout")


@pytest.mark.parametrize(
    "entries",
    [
        [file("lib/x", b"")],
        [folder("lib/x")],
        [file("lib/.wh.a", b"")],
        [file("lib/.wh..wh..opq", b"")],
        [file("lib/x", b""), symlink("lib", "usr/lib")],
        [symlink("own", "lib"), file("own/x", b"")],
        [(TarEntry(path="h", type="hardlink", mode=0o644, target="lib/a"), b"")],
    ],
)
def test_a_path_through_a_link_of_a_lower_layer(entries: Members) -> None:
    assert refused(LOW, entries).endswith(", and a lower layer has the symbolic link /lib")


@pytest.mark.parametrize(
    ("entries", "gone", "new"),
    [
        # A directory that was removed and made again, as overlayfs and AUFS record it.
        ([folder("d"), file("d/.wh..wh..opq", b""), file("d/good", b"g")], "d/bad d/s d/s/t", ""),
        ([file(".wh.d", b""), folder("d"), file("d/.wh..wh..opq", b"")], "d/good d/bad d/s d/s/t", ""),
        # The same, as a walk over two roots records it.
        ([folder("d"), file("d/.wh.bad", b""), file("d/.wh.s", b"")], "d/bad d/s d/s/t", ""),
        ([file(".wh.d", b""), *AGAIN, file("d/.wh.bad", b""), file("d/.wh.s", b"")], "d/bad d/s d/s/t", ""),
        ([file(".wh.d", b""), *AGAIN, file("d/bad", b""), file("d/s", b"")], "d/s/t", ""),
        ([file("d", b"")], "d/good d/bad d/s d/s/t", ""),
        ([symlink("d", "usr")], "d/good d/bad d/s d/s/t", ""),
        ([file(".wh.d", b"")], "d d/good d/bad d/s d/s/t", ""),
        # The directory of /lib becomes a link and back, files and directories take the place of each other.
        ([symlink("d", "usr/lib"), file("d/.wh.good", b""), file("d/.wh.bad", b"")], "d/good d/bad d/s d/s/t", ""),
        ([folder("lib"), file("lib/x", b"")], "", "lib/x"),
        ([file(".wh.lib", b""), folder("lib"), file("lib/x", b"")], "", "lib/x"),
        ([file(".wh.f", b""), folder("f"), file("f/x", b"")], "", "f/x"),
        ([file(".wh.empty", b""), folder("empty"), file("empty/x", b"")], "", "empty/x"),
        ([file("new", b""), folder("new"), file("new/x", b"")], "", "new new/x"),
        ([symlink("lib", "usr/lib"), file("lib/x", b"")], "", "usr/lib/x"),
        ([file("usr/lib/x", b""), file("usr/lib/.wh.a", b"")], "usr/lib/a", "usr/lib/x"),
        ([file(".wh.lib", b"")], "lib", ""),
    ],
)  # fmt: skip
def test_layers_of_which_all_engines_make_one_tree(entries: Members, gone: str, new: str) -> None:
    low = merge([listing(*LOW)]).keys()
    assert merge([listing(*LOW), listing(*entries)]).keys() == (low - set(gone.split())) | set(new.split())


def test_a_folder_that_a_link_replaced_in_a_layer_between() -> None:
    tree = merge([listing(*LOW), listing(symlink("d", "usr")), listing(file(".wh.d", b""), *AGAIN)])
    assert [path for path in tree if path.startswith("d")] == ["d", "d/good"]


ROOT = file(".wh..wh..opq", b"")


@pytest.mark.parametrize(
    "entries",
    [
        [ROOT],
        [ROOT, file("d/good", b"g")],
        [folder(""), ROOT, file("d/good", b"g")],
        [file("d/s/new", b""), ROOT],
    ],
)
def test_an_opaque_marker_at_the_root(entries: Members) -> None:
    """The kernel does not read the attribute of a layer's own root: the files of lower layers stay."""
    with pytest.raises(BuildError) as caught:
        merge([listing(*LOW), listing(*entries)])
    assert caught.value.hint == REFUSED
    assert str(caught.value) == (
        "a layer holds an opaque marker at its root: engines that mount layers over each other ignore it, and show the "
        "files of lower layers"
    )


@pytest.mark.parametrize("below", [[], [[]], [[folder("")]]])
def test_an_opaque_marker_at_the_root_of_the_lowest_files(below: list[Members]) -> None:
    tree = merge([listing(*entries) for entries in (*below, [ROOT, file("f", b"")])])
    assert sorted(tree) == ["", "f"]


@pytest.mark.parametrize(
    ("entries", "path"),
    [
        ([folder("d"), symlink("m", "d"), file("m/.wh.good", b"")], "d/good"),
        ([folder("d"), symlink("m", "d"), file("m/s/.wh.t", b"")], "d/s/t"),
        ([symlink("top", "/"), file("top/.wh.f", b"")], "f"),
        ([symlink("empty", "d"), file("empty/.wh.good", b"")], "d/good"),
    ],
)
def test_a_whiteout_below_a_link_of_its_layer(entries: Members, path: str) -> None:
    """moby and containerd follow the link that they have unpacked; the specification knows no such whiteout."""
    with pytest.raises(BuildError) as caught:
        merge([listing(*LOW), listing(*entries)])
    whiteout = entries[-1][0].path
    assert caught.value.hint == REFUSED
    assert str(caught.value) == (
        f"a layer holds the whiteout /{whiteout} below a symbolic link of its own: engines delete /{path} by it"
    )


@pytest.mark.parametrize("entries", [[folder("d"), symlink("m", "d")], [symlink("m", "/")]])
def test_an_opaque_marker_below_a_link_of_its_layer(entries: Members) -> None:
    with pytest.raises(BuildError, match=r"m/\.wh\.\.wh\.\.opq behind an entry that engines delete by it"):
        merge([listing(*LOW), listing(*entries, file("m/.wh..wh..opq", b""))])


def test_a_whiteout_before_a_link_in_its_place() -> None:
    entries = [folder("d"), file("empty/.wh.good", b""), symlink("empty", "d")]
    assert "d/good" in merge([listing(*LOW), listing(*entries)])
