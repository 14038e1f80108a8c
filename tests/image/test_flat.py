"""One tar of an image: a function of its tree, whoever made the layers."""

from __future__ import annotations

import contextlib
import io
import resource
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reprobuild.errors import BuildError
from reprobuild.image.formats.flatten import epoch_of, header, open_flat_image
from reprobuild.image.oci.read import Layout, layout_tree
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.infra.tar.reading import list_tar
from reprobuild.infra.untrusted.names import HOSTILE
from tests.image.layouts import Members, Packing, write_image
from tests.image.made import BASE, EPOCH, file, folder, symlink

DAMAGED = "the layer is damaged, or its builder broke the image specification; build the image again"
MAKE_AGAIN = "the layout is damaged: make it again with `reprobuild build`"

TREE: Members = [
    *BASE,
    file("opt/a", b"one" * 1000, xattrs=(("user.nothing", ""), ("user.odd", "000a3dff"))),
    file("opt/a-b", b""),
    file("opt/" + "d" * 120 + "/" + "n" * 250, b"long", uid=3_000_000),
    file("opt/é\udcff\n*", b"bytes"),
    file("usr/lib/system-\\x2d.slice", b"a backslash is a character"),
    symlink("opt/far", "/" + "t" * 300),
    symlink("opt/accent", "/é"),
    symlink("opt/up", "../../x"),
    (TarEntry(path="run/pipe", type="fifo", mode=0o600), b""),
]


def flat(layout: Layout, where: Path) -> bytes:
    with open_flat_image(layout, where) as found:
        return b"".join(found.stream())


def listed(tar: bytes) -> dict[str, TarEntry]:
    return {entry.path: entry for entry in list_tar(io.BytesIO(tar))}


def test_the_stream_is_the_tree(tmp_path: Path) -> None:
    layout = write_image(tmp_path / "image", [TREE])
    content = flat(layout, tmp_path)
    tree = layout_tree(layout)
    del tree[""]
    assert list(listed(content).items()) == sorted(tree.items())
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        assert {info.mtime for info in tar} == {EPOCH}


def test_layers_compression_and_order_do_not_show(tmp_path: Path) -> None:
    """Hard links, whiteouts, opaque directories, what is written twice, and parents that nobody writes."""
    one = write_image(tmp_path / "one", [TREE])
    python = next(entry for entry, _ in BASE if entry.path == "usr/bin/python3.11")
    linked = [pair for pair in BASE if pair[0].type != "hardlink"]
    copy = (file("usr/bin/python-again", b"ELF", python.mode, xattrs=python.xattrs),)
    low: Members = [*linked, file("opt/a", b"old"), file("opt/gone", b""), file("var/x/y/deep", b"")]
    high: Members = [
        *copy, file("opt/.wh.gone", b""), file(".wh.var", b""),
        *(pair for pair in reversed(TREE) if pair[0].path.startswith(("opt/", "run/", "usr/lib"))),
    ]  # fmt: skip
    expected = flat(one, tmp_path)
    for packing in ("", "gzip", "zstd"):
        again = write_image(tmp_path / f"again{packing}", [low, high], packing=packing)
        assert flat(again, tmp_path) == expected
    assert b"python-again" in expected


def test_our_own_entries_are_put_over_the_tree(tmp_path: Path) -> None:
    layout = write_image(tmp_path / "image", [TREE])
    with open_flat_image(layout, tmp_path) as found:
        own = [file("new/dir/x", b"mine"), file("etc/shadow", b"other", 0o600), symlink("usr/bin/y", "z")]
        entries = listed(b"".join(found.stream(own)))
        with pytest.raises(BuildError, match="below /bin, which is a symlink"):
            b"".join(found.stream([file("bin/x", b"")]))
    assert entries["new/dir"].type == "directory"
    assert (entries["new/dir/x"].size, entries["etc/shadow"].mode) == (4, 0o600)
    assert entries["usr/bin/y"].target == "z"
    assert list(entries) == sorted(entries)


def test_devices_are_left_out_by_name(tmp_path: Path) -> None:
    devices = [
        (TarEntry(path="dev/null", type="char", mode=0o666, device=(1, 3)), b""),
        (TarEntry(path="dev/sda", type="block", mode=0o660, device=(8, 0)), b""),
    ]
    with open_flat_image(write_image(tmp_path / "image", [[*BASE, *devices]]), tmp_path) as found:
        assert found.devices == ("dev/null", "dev/sda")
        assert set(listed(b"".join(found.stream()))) == set(found.tree) - {""}
        assert "dev" in found.tree


def test_nothing_is_left_in_the_folder(tmp_path: Path) -> None:
    layout = write_image(tmp_path / "image", [TREE])
    with open_flat_image(layout, tmp_path):
        assert [path.name for path in tmp_path.iterdir()] == ["image"]


@pytest.mark.parametrize("path", ["../out", "a/../../b", "a/./b", "a//b"])
def test_paths_that_lead_elsewhere(path: str, tmp_path: Path) -> None:
    layout = write_image(tmp_path / "image", [[file(path, b"")]])
    with pytest.raises(BuildError, match="unsafe path") as caught:
        flat(layout, tmp_path)
    assert caught.value.hint == DAMAGED


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (file("f", b"", xattrs=(("system.nfs4_acl", "02000000"),)), "/f has the extended attribute system.nfs4_acl"),
        ((TarEntry(path=".", type="directory", mode=0o755, xattrs=(("user.x", "00"),)), b""), "/ has the extended"),
    ],
)  # fmt: skip
def test_attributes_that_would_be_lost(entry: tuple[TarEntry, bytes], words: str, tmp_path: Path) -> None:
    layout = write_image(tmp_path / "image", [[entry]])
    with pytest.raises(BuildError, match=words) as caught:
        flat(layout, tmp_path)
    assert caught.value.hint == (
        "take the attribute off in the image: squashfs knows user., trusted. and security. alone, "
        "and mksquashfs takes none for the root from a tar"
    )


def sparse() -> bytes:
    """A tar with a file that is not in one piece, as GNU tar writes it with --sparse."""
    info = tarfile.TarInfo("GNUSparseFile.0/hole")
    body = b"1\n0\n4\n".ljust(512, b"\0") + b"data"
    info.size = len(body)
    info.pax_headers = {
        "GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "hole", "GNU.sparse.realsize": "9999",
    }  # fmt: skip
    return info.tobuf(tarfile.PAX_FORMAT) + body.ljust(1024, b"\0") + bytes(1024)


def test_a_sparse_file_is_refused(tmp_path: Path) -> None:
    layout = write_image(tmp_path / "image", [sparse()])
    with pytest.raises(BuildError, match="hole', a sparse file") as caught:
        flat(layout, tmp_path)
    assert caught.value.hint == HOSTILE


@pytest.mark.parametrize("packing", ["", "gzip", "zstd"])
def test_a_damaged_layer_is_not_streamed(packing: Packing, tmp_path: Path) -> None:
    """Another layer of the same form, one cut short, one with something after its end."""
    layout = write_image(tmp_path / "image", [TREE], packing=packing)
    other = write_image(tmp_path / "other", [BASE], packing=packing)
    blob = layout.blob(layout.layers[0][1])
    content = blob.read_bytes()
    for damaged in (other.blob(other.layers[0][1]).read_bytes(), content[:-600], content + bytes(600)):
        blob.write_bytes(damaged)
        with pytest.raises(BuildError, match=r"is not what it states|cannot be read") as caught:
            flat(layout, tmp_path)
        assert caught.value.hint == MAKE_AGAIN


def test_headers_are_those_of_gnu_tar() -> None:
    """As Python's own writer makes them: GNU_FORMAT is the form that mksquashfs reads whole."""
    types = {
        "file": tarfile.REGTYPE,
        "directory": tarfile.DIRTYPE,
        "symlink": tarfile.SYMTYPE,
        "fifo": tarfile.FIFOTYPE,
    }
    entries = [entry for entry, _ in TREE if entry.type in types and not entry.xattrs]
    entries += [
        TarEntry(path="x" * length, type="symlink", mode=0o777, target="y" * (length + 1))
        for length in range(98, 102)
    ]
    entries += [
        TarEntry(path="n", type="file", mode=0o4755, uid=uid, gid=2**21, size=uid)
        for uid in (2**21 - 1, 2**32)
    ]
    assert len(entries) > 15
    for entry in entries:
        info = tarfile.TarInfo(entry.path)
        info.type, info.mode, info.uid, info.gid = types[entry.type], entry.mode, entry.uid, entry.gid
        info.mtime, info.linkname, info.size = EPOCH, entry.target, entry.size
        expected = info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
        if entry.type != "directory":  # Python ends their names with a slash
            assert without_devices(header(entry, EPOCH)) == without_devices(expected), entry


def without_devices(blocks: bytes) -> list[bytes]:
    """Return the blocks without the numbers of a device, which Python writes for all, and what depends on them."""
    pieces = [blocks[at : at + 512] for at in range(0, len(blocks), 512)]
    return [
        piece if piece[257:263] != b"ustar " else piece[:148] + piece[156:329] + piece[345:]
        for piece in pieces
    ]


@contextlib.contextmanager
def small_files() -> Iterator[None]:
    """No file may grow past 8 kB, as where the disk is full; no fixture, or pytest's own output could not grow."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_no_space_for_the_layers(tmp_path: Path) -> None:
    layout = write_image(tmp_path / "image", [[file("big", bytes(100_000))]])
    words = r"the layers cannot be unpacked in .*: File too large"
    with pytest.raises(BuildError, match=words) as caught, small_files():
        flat(layout, tmp_path)
    assert caught.value.hint == "this needs as much space there as the image has when it is unpacked"
    with pytest.raises(BuildError, match=r"the layers cannot be unpacked in .*/gone: No such file"):
        flat(layout, tmp_path / "gone")


LABEL = "org.opencontainers.image.created"


@pytest.mark.parametrize(
    ("image", "epoch"),
    [
        ({"created": "2023-11-14T22:13:20Z"}, EPOCH),
        ({"created": "2023-11-14T23:13:20.123456789+01:00"}, EPOCH),
        ({"created": "2026-01-01T00:00:00Z", "config": {"Labels": {LABEL: "2023-11-14T22:13:20Z"}}}, EPOCH),
        ({"created": "2023-11-14T22:13:20Z", "config": {"Labels": {LABEL: "yesterday"}}}, EPOCH),
        ({"created": "1970-01-01T00:00:00Z"}, 0),
        ({"created": "0001-01-01T00:00:00Z"}, 315532800),
        ({"created": "2106-02-07T06:28:16Z"}, 315532800),
        ({"created": "2023-13-14T22:13:20Z"}, 315532800),
        ({"created": 5, "config": None}, 315532800),
        ({}, 315532800),
    ],
)
def test_the_time_of_an_image(image: dict[str, Any], epoch: int) -> None:
    assert epoch_of(image) == epoch


def test_an_empty_folder_of_a_name_that_looks_like_a_path(tmp_path: Path) -> None:
    with open_flat_image(write_image(tmp_path / "image", [[folder("a b"), folder("-x")]]), tmp_path) as found:
        assert set(found.tree) == {"", "a b", "-x"}


def test_a_layer_that_the_configuration_does_not_name_is_refused(tmp_path: Path) -> None:
    """The manifest is right, and names a layer with a file more than the tree that the image states."""
    honest = write_image(tmp_path / "honest", [TREE])
    evil = write_image(tmp_path / "evil", [[*TREE, file("usr/bin/evil", b"evil", mode=0o4755)]])
    (kind, _, diff_id), (_, digest, _) = honest.layers[0], evil.layers[0]
    mixed = msgspec.structs.replace(evil, layers=((kind, digest, diff_id),))
    with pytest.raises(BuildError, match=digest) as caught:
        flat(mixed, tmp_path)
    assert caught.value.hint == MAKE_AGAIN
