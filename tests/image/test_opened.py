"""Images of every form are opened, read and checked; damage and malice have a name and a hint."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import random
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from reprobuild.compare.images.scan import Scanned, fetch_contents, scan_image
from reprobuild.errors import BuildError, ReproError, UsageError
from reprobuild.image.oci.indexes import MOST_DESCRIPTORS
from reprobuild.image.oci.open import DEEPEST_JSON, LARGEST_JSON, open_path
from reprobuild.image.oci.read import layout_digest, read_layout
from reprobuild.image.oci.write import name_annotations
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.infra.untrusted.names import most_bytes
from tests.image.images import archived, changed_json, finish, make_layout, put, saved, tar_of
from tests.image.made import BASE, file, folder, symlink

CUT_SHORT = "the file is damaged or cut short; export or copy the image again"
GIVE = "give an output directory, an OCI layout, an archive of `docker save` or OCI, a SIF, or an image of the engine"
HOSTILE = (
    "the file is damaged or made to harm; get it from where it was published, or leave it out with `--drop`"
)
ENTRIES = [*BASE, file("opt/a", b"a" * 5000)]
TOP = [file("opt/b", b"b"), file("opt/.wh.a", b"")]


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    return make_layout(tmp_path / "layout", ENTRIES, TOP)


def first_layer(layout: Path) -> Path:
    return read_layout(layout).blob(read_layout(layout).layers[0][1])


def read(path: Path, scratch: Path) -> Scanned:
    scratch.mkdir(exist_ok=True)
    return scan_image(open_path(path, scratch), {})


def fails(
    path: Path, tmp_path: Path, words: str, hint: str = CUT_SHORT, kind: type[ReproError] = BuildError
) -> None:
    with pytest.raises(kind, match=words) as failed:
        read(path, tmp_path / "scratch")
    assert failed.value.hint == hint
    assert str(path) in str(failed.value) or path.name in str(failed.value)


@pytest.mark.parametrize("packing", ["none", "gzip", "zstd"])
def test_every_form_is_the_same_image(layout: Path, packing: str, tmp_path: Path) -> None:
    wanted = layout_digest(read_layout(layout))
    results = tmp_path / "results"
    results.mkdir()
    layout.rename(results / "image")
    layout = results / "image"
    other = make_layout(tmp_path / "other", ENTRIES, TOP, packing=packing)
    forms = {
        "output directory": results,
        "OCI layout": other,
        "OCI archive": archived(layout, tmp_path / "oci.tar", packing),
        "docker archive": saved(layout, tmp_path / "saved.tar", packing),
    }
    for form, path in forms.items():
        found = read(path, tmp_path / form)
        assert (found.digest, found.image.form) == (wanted, form)
        assert found.image.reference == "small:1"
        assert found.image.config_digest == read_layout(layout).config_digest
        assert bool(found.image.manifest) == (form != "docker archive")
        assert "opt/b" in found.tree
        assert "opt/a" not in found.tree
    assert {p.method for p in read(other, tmp_path / "again").packing} == {packing}


@pytest.mark.parametrize("packing", ["none", "gzip", "zstd"])
def test_contents_are_read_again_from_an_archive(layout: Path, packing: str, tmp_path: Path) -> None:
    other = make_layout(tmp_path / "other", ENTRIES, TOP, packing=packing)
    for form in (
        archived(other, tmp_path / "oci.tar", packing),
        saved(other, tmp_path / "saved.tar", packing),
    ):
        found = read(form, tmp_path / form.stem)
        digest = found.tree["opt/b"].sha256
        into = tmp_path / f"{form.stem}-contents"
        into.mkdir()
        fetch_contents(found, {digest}, into)
        assert hashlib.sha256((into / digest).read_bytes()).hexdigest() == digest


def test_times_are_read_in_full(tmp_path: Path) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, time in (("a", "1700000000.123456789"), ("b", "-1.5"), ("c", "12")):
            info = tarfile.TarInfo(name)
            info.pax_headers = {"mtime": time}
            tar.addfile(info)
    found = read(make_layout(tmp_path / "layout", stream.getvalue()), tmp_path / "s")
    assert found.times == {"a": 1_700_000_000_123_456_789, "b": -1_500_000_000, "c": 12_000_000_000}


def test_the_same_layer_is_parsed_once_and_checked_twice(layout: Path, tmp_path: Path) -> None:
    known: dict[str, Any] = {}
    one = scan_image(open_path(layout, tmp_path), known)
    other = make_layout(tmp_path / "gzip", ENTRIES, TOP, packing="gzip")
    two = scan_image(open_path(other, tmp_path), known)
    assert [a is b for a, b in zip(one.layers, two.layers, strict=True)] == [True, True]
    first = first_layer(other)
    first.write_bytes(first.read_bytes()[:-9] + b"damaged!!")
    with pytest.raises(BuildError, match=r"layer 1 of .*gzip"):
        scan_image(open_path(other, tmp_path), known)


STATEMENT = "vnd.docker.reference.type"
UNKNOWN = {"os": "unknown", "architecture": "unknown"}


def attested(index: Any, other: str, **more: Any) -> Any:
    """Return an index that lists a manifest of another digest as BuildKit lists an attestation, but for `more`."""
    (found,) = index["manifests"]
    notes = {STATEMENT: "attestation-manifest", "vnd.docker.reference.digest": found["digest"]}
    row = {**found, "digest": other, "annotations": notes, "platform": UNKNOWN, **more}
    row["annotations"] = {**notes, **more.get("annotations", {})}
    return {**index, "manifests": [row, found]}


def with_other(layout: Path, tmp_path: Path) -> str:
    """Put all blobs of another image beside those of a layout, and return the digest of its manifest."""
    other = make_layout(tmp_path / "other", [*BASE, file("opt/evil", b"e")])
    for blob in (other / "blobs" / "sha256").iterdir():
        put(layout / "blobs" / "sha256", blob.read_bytes())
    return read_layout(other).manifest


def test_attestations_and_platforms_that_are_not_there(layout: Path, tmp_path: Path) -> None:
    wanted = read(layout, tmp_path / "s").image.manifest
    other = with_other(layout, tmp_path)

    def change(index: Any) -> Any:
        attestation, found = attested(index, other)["manifests"]
        absent = {**found, "digest": f"sha256:{'0' * 64}"}
        return {**index, "manifests": [attestation, absent, found, found]}

    changed_json(layout, "index.json", change)
    assert read(layout, tmp_path / "s").image.manifest == wanted


@pytest.mark.parametrize(
    "more",
    [
        {"annotations": {STATEMENT: "x"}},
        {"annotations": {"vnd.docker.reference.digest": f"sha256:{'1' * 64}"}},
        {"annotations": name_annotations("small:1")},
        {"annotations": {"io.containerd.image.name": "example.org/small:1"}},
        {"platform": {"os": "linux", "architecture": "amd64"}},
    ],
)
def test_an_image_that_claims_to_be_an_attestation(more: Any, layout: Path, tmp_path: Path) -> None:
    """Engines load it: it is no statement on another image."""
    other = with_other(layout, tmp_path)
    changed_json(layout, "index.json", lambda index: attested(index, other, **more))
    one = "export one image, of one platform, into the file"
    fails(layout, tmp_path, "layout holds 2 images", one)


def test_a_name_for_a_manifest_of_an_unknown_type(layout: Path, tmp_path: Path) -> None:
    other = with_other(layout, tmp_path)
    rows: list[dict[str, Any]] = []

    def change(index: Any) -> Any:
        return {**index, "manifests": [*index["manifests"][:1], *rows]}

    rows[:] = [{"mediaType": "application/x", "digest": other}]
    changed_json(layout, "index.json", change)
    assert read(layout, tmp_path / "s").image.manifest != other
    rows[0]["annotations"] = name_annotations("small:1")
    changed_json(layout, "index.json", change)
    fails(layout, tmp_path, "names an image of the unknown type 'application/x'")


def test_an_archive_whose_two_manifests_state_different_images(layout: Path, tmp_path: Path) -> None:
    """Docker reads index.json or manifest.json, by its image store."""
    wanted = read_layout(layout)
    with_other(layout, tmp_path)
    other = read_layout(tmp_path / "other")

    def row(image: Any, *more: str) -> dict[str, Any]:
        layers = [f"blobs/sha256/{digest}" for _, digest, _ in image.layers]
        return {
            "Config": f"blobs/sha256/{image.config_digest[7:]}",
            "RepoTags": ["small:1"],
            "Layers": [*layers, *more],
        }

    def archive(*rows: Any) -> Path:
        (layout / "manifest.json").write_text(json.dumps(rows))
        return archived(layout, tmp_path / "both.tar")

    assert read(archive(row(wanted)), tmp_path / "s").digest == layout_digest(wanted)
    other_layers = {**row(wanted), "Layers": row(other)["Layers"]}
    blob = f"blobs/sha256/{wanted.layers[0][1]}"
    for bad in (row(other), other_layers, row(wanted, blob), {**row(wanted), "Layers": None}, {}):
        fails(archive(bad), tmp_path, "manifest.json and index.json state different images")
    swapped = [row(wanted)["Layers"][1], row(wanted)["Layers"][0]]
    fails(archive({**row(wanted), "Layers": swapped}), tmp_path, "state different images")
    for rows in ([row(wanted), row(other)], []):
        fails(archive(*rows), tmp_path, "manifest.json does not state one image")


def test_manifests_of_one_image_by_other_names_of_its_files(layout: Path, tmp_path: Path) -> None:
    """Programs that keep the names of older archives beside an index."""
    both = tmp_path / "both.tar"
    with tarfile.open(saved(layout, tmp_path / "saved.tar")) as old, tarfile.open(both, "w") as tar:
        for info in old:
            tar.addfile(info, old.extractfile(info) if info.isreg() else None)
        tar.add(layout, arcname=".")
    found = read(both, tmp_path / "s")
    assert (found.image.form, found.digest) == ("OCI archive", layout_digest(read_layout(layout)))


def test_an_index_in_an_index(layout: Path, tmp_path: Path) -> None:
    wanted = read(layout, tmp_path / "s").image.manifest
    for depth in range(6):
        inner = (layout / "index.json").read_bytes()
        digest = put(layout / "blobs" / "sha256", inner)
        row = {"mediaType": "application/vnd.oci.image.index.v1+json", "digest": f"sha256:{digest}"}
        changed_json(layout, "index.json", lambda index, row=row: {**index, "manifests": [row]})
        if depth < 4:
            assert read(layout, tmp_path / "s").image.manifest == wanted
    fails(layout, tmp_path, "its indexes are nested too deep")


def test_nested_indexes_that_repeat_each_other_are_read_once(layout: Path, tmp_path: Path) -> None:
    """Four levels of thirty equal entries would be 810 000 images, and take minutes."""
    wanted = read(layout, tmp_path / "s").image.manifest
    index = json.loads((layout / "index.json").read_bytes())
    (row,) = index["manifests"]
    for _ in range(4):
        digest = put(layout / "blobs" / "sha256", json.dumps({"manifests": [row] * 30}).encode())
        row = {"mediaType": "application/vnd.oci.image.index.v1+json", "digest": f"sha256:{digest}"}
    (layout / "index.json").write_text(json.dumps({**index, "manifests": [row] * 30}))
    begin = time.process_time()
    assert read(layout, tmp_path / "s").image.manifest == wanted
    assert time.process_time() - begin < 5
    (layout / "index.json").write_text(json.dumps({**index, "manifests": [row] * (MOST_DESCRIPTORS + 1)}))
    fails(layout, tmp_path, "its indexes list more than 10000 manifests")


# --- what is no image ------------------------------------------------------------------------


def test_nothing_there(tmp_path: Path) -> None:
    fails(tmp_path / "gone", tmp_path, "there is no image at", GIVE, UsageError)
    os.mkfifo(tmp_path / "pipe")
    fails(tmp_path / "pipe", tmp_path, "there is no image at", GIVE, UsageError)


def test_something_else(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    fails(
        tmp_path / "empty", tmp_path, "holds no image: neither index.json nor manifest.json", GIVE, UsageError
    )
    (tmp_path / "other.tar").write_bytes(tar_of(BASE))
    fails(tmp_path / "other.tar", tmp_path, "holds no image", GIVE, UsageError)
    (tmp_path / "text").write_text("text\n" * 300)
    fails(tmp_path / "text", tmp_path, "is no tar of an image")
    (tmp_path / "zero").write_bytes(b"")
    fails(tmp_path / "zero", tmp_path, "is no tar of an image")
    (tmp_path / "hole").touch()
    os.truncate(tmp_path / "hole", 4 << 40)
    fails(tmp_path / "hole", tmp_path, "is no tar of an image: it is a hole")


def test_pipes_and_folders_in_a_layout_are_not_waited_for(layout: Path, tmp_path: Path) -> None:
    (layout / "index.json").unlink()
    os.mkfifo(layout / "index.json")
    fails(layout, tmp_path, "holds no image", GIVE, UsageError)


def test_several_images(layout: Path, tmp_path: Path) -> None:
    rows = json.loads((layout / "index.json").read_bytes())["manifests"]
    finish(layout, b'{"config":{},"rootfs":{"diff_ids":[]}}', [])
    changed_json(layout, "index.json", lambda index: {**index, "manifests": [*rows, *index["manifests"]]})
    fails(layout, tmp_path, "holds 2 images", "export one image, of one platform, into the file")
    path = saved(make_layout(tmp_path / "two", TOP), tmp_path / "two.tar")
    with tarfile.open(path) as tar:
        content = {info.name: tar.extractfile(info).read() for info in tar if info.isreg()}
    content["manifest.json"] = json.dumps(json.loads(content["manifest.json"]) * 2).encode()
    path.write_bytes(tar_of([file(name, data) for name, data in content.items()]))
    fails(path, tmp_path, "holds 2 images", "export one image, of one platform, into the file")


# --- damage ----------------------------------------------------------------------------------


def test_a_damaged_layer(layout: Path, tmp_path: Path) -> None:
    first = first_layer(layout)
    whole = first.read_bytes()
    for content in (whole[:-20], whole + b"more", whole[:30] + bytes([whole[30] ^ 1]) + whole[31:], b""):
        first.write_bytes(content)
        fails(
            layout, tmp_path, r"layer 1 of .* \([0-9a-f]{64}\) (cannot be read|is not what the image states)"
        )
    first.unlink()
    fails(layout, tmp_path, "is a damaged image: the layer .* is missing")


def test_a_layer_that_is_damaged_between_the_two_passes(layout: Path, tmp_path: Path) -> None:
    found = read(layout, tmp_path / "s")
    first_layer(layout).write_bytes(b"\x28\xb5\x2f\xfd damaged")
    with pytest.raises(BuildError, match=r"layer 1 of .* cannot be read again: ") as failed:
        fetch_contents(found, {found.tree["etc/shadow"].sha256}, tmp_path)
    assert failed.value.hint == CUT_SHORT


def test_a_layer_that_is_another_one(layout: Path, tmp_path: Path) -> None:
    manifest = json.loads((layout / "index.json").read_bytes())["manifests"][0]["digest"].partition(":")[2]
    rows = json.loads((layout / "blobs" / "sha256" / manifest).read_bytes())["layers"]
    image = {"config": {}, "rootfs": {"diff_ids": [f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"]}}
    finish(layout, json.dumps(image).encode(), rows)
    fails(layout, tmp_path, "layer 1 of .* is not what the image states")


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (b"no json", "Expecting value"),
        (b"[]", "is no object"),
        (b"{}", "rootfs"),
        (b'{"config":[1],"rootfs":{"diff_ids":[]}}', r"Expected `object . null`, got `array` - at `\$.config`"),
        (b'{"config":{"Env":{"A":1}},"rootfs":{"diff_ids":[]}}', r"at `\$.config.Env`"),
        (b'{"config":{"Cmd":[1]},"rootfs":{"diff_ids":[]}}', r"at `\$.config.Cmd"),
        (b'{"config":{"User":1},"rootfs":{"diff_ids":[]}}', r"at `\$.config.User`"),
        (b'{"config":{"Labels":[]},"rootfs":{"diff_ids":[]}}', r"at `\$.config.Labels`"),
        (b'{"config":{},"rootfs":{"diff_ids":["md5:1"]}}', "is no sha256 digest"),
        (b'{"config":{},"rootfs":{"diff_ids":[null]}}', "damaged image"),
        (b'{"config":{},"rootfs":{"diff_ids":["sha256:%s"]}}' % (b"0" * 64), "damaged image"),
        (b'{"config":{},"rootfs":{"diff_ids":[]},"layers":[]}', "the key 'layers' of another kind of document"),
        (b'{"a":' + b"[" * (DEEPEST_JSON + 1) + b"]" * (DEEPEST_JSON + 1) + b"}", "nested deeper"),
        (b"[" * 100_000, "damaged image"),
        (b"\xff", "damaged image"),
        (b'{"a":"' + b"x" * LARGEST_JSON + b'"}', "is larger than"),
    ],
    ids=range(16),
)  # fmt: skip
def test_a_strange_configuration(image: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "layout").mkdir()
    finish(tmp_path / "layout", image, [])
    fails(tmp_path / "layout", tmp_path, words)


@pytest.mark.parametrize(
    "index", [b"[]", b"{}", b'{"manifests":{}}', b'{"manifests":[{}]}', b'{"manifests":[1]}', b""]
)
def test_a_strange_index(index: bytes, layout: Path, tmp_path: Path) -> None:
    (layout / "index.json").write_bytes(index)
    fails(layout, tmp_path, "is a damaged image: ")


@pytest.mark.parametrize(
    "manifest",
    [b"{}", b"[]", b"[{}]", b'[{"Config":"x","Layers":[]}]', b'[{"Config":"c","Layers":["../../x"]}]', b"["],
)
def test_a_strange_docker_archive(manifest: bytes, tmp_path: Path) -> None:
    config = b'{"config":{},"rootfs":{"diff_ids":["sha256:' + b"0" * 64 + b'"]}}'
    (tmp_path / "saved.tar").write_bytes(tar_of([file("manifest.json", manifest), file("c", config)]))
    with pytest.raises(BuildError, match=r"saved.tar (is a damaged image|holds 0 images)") as failed:
        read(tmp_path / "saved.tar", tmp_path / "scratch")
    assert failed.value.hint in (CUT_SHORT, "export one image, of one platform, into the file")


@pytest.mark.parametrize("packing", ["gzip", "zstd"])
def test_a_small_archive_of_very_many_bytes_is_refused(packing: str, tmp_path: Path) -> None:
    """A bomb of zstd of 65 KB would put 1.5 GB into TMPDIR."""
    zeros = bytes(1 << 20)
    bomb = tmp_path / "bomb.tar"
    if packing == "gzip":
        with gzip.open(bomb, "wb", compresslevel=9) as stream:
            for _ in range(700):
                stream.write(zeros)
    else:
        with bomb.open("wb") as raw, zstandard.ZstdCompressor(level=3).stream_writer(raw) as writer:
            for _ in range(700):
                writer.write(zeros)
    bound = most_bytes(bomb.stat().st_size)
    assert bound < 700 << 20
    fails(bomb, tmp_path, rf"bytes and unpacks to more than {bound}", HOSTILE)
    assert (tmp_path / "scratch" / "archive.tar").stat().st_size <= bound


def test_an_index_of_very_many_objects_is_refused_by_its_size(layout: Path, tmp_path: Path) -> None:
    """Each small object of JSON takes far more memory than bytes."""
    document = json.loads((layout / "index.json").read_bytes())
    index = json.dumps({**document, "x": [{"a": 0}] * 600_000}).encode()
    assert 4 << 20 < len(index) < 16 << 20
    (layout / "index.json").write_bytes(index)
    fails(layout, tmp_path, "index.json is larger than 4194304 bytes")


def test_scratch_files_that_cannot_be_written(layout: Path, tmp_path: Path) -> None:
    """A full disk is no damage of the image. /dev/full is one, and a directory that is gone is another."""
    hint = "make room, or let TMPDIR name a directory with room for what differs and for packed archives"
    packed = archived(layout, tmp_path / "oci.tar.gz", "gzip")
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch" / "archive.tar").symlink_to("/dev/full")
    for scratch, words in (
        (tmp_path / "scratch", "No space left on device"),
        (tmp_path / "gone", "No such file"),
    ):
        with pytest.raises(BuildError, match=rf"archive.tar cannot be written: {words}") as failed:
            open_path(packed, scratch)
        assert failed.value.hint == hint
    found = read(layout, tmp_path / "s")
    with pytest.raises(BuildError, match="cannot be written: No such file") as failed:
        fetch_contents(found, {found.tree["opt/b"].sha256}, tmp_path / "gone")
    assert failed.value.hint == hint


# --- malice ----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["../escape", "a/../../escape", "/../escape", ".."])
def test_members_that_lead_out(path: str, tmp_path: Path) -> None:
    tar = tar_of([file(path, b"x")])
    fails(make_layout(tmp_path / "layout", tar), tmp_path, "layer 1 of .*leads out of the image")
    assert not (tmp_path.parent / "escape").exists()


def test_links_that_lead_out_are_only_text(tmp_path: Path) -> None:
    found = read(make_layout(tmp_path / "layout", [symlink("a", "../../../etc/shadow")]), tmp_path / "s")
    assert found.tree["a"].target == "../../../etc/shadow"
    out = tar_of([(TarEntry(path="h", type="hardlink", mode=0o644, target="../../etc/shadow"), b"")])
    fails(make_layout(tmp_path / "hard", out), tmp_path, "leads out of the image")


def test_links_in_an_archive_lead_only_to_its_members(layout: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("{}")
    for target in (str(secret), "../secret", "index.json"):
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w") as tar:
            info = tarfile.TarInfo("index.json")
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)
        (tmp_path / "link.tar").write_bytes(stream.getvalue())
        fails(tmp_path / "link.tar", tmp_path, "holds no image", GIVE, UsageError)


def test_a_link_of_docker_save_is_followed(layout: Path, tmp_path: Path) -> None:
    path = saved(layout, tmp_path / "saved.tar")
    with tarfile.open(path) as tar:
        content = {info.name: tar.extractfile(info).read() for info in tar if info.isreg()}
    name = next(name for name in content if name.endswith("/layer.tar"))
    rows = [file(key, data) for key, data in content.items() if key != name]
    rows += [file("elsewhere/layer.tar", content[name]), symlink(name, "../elsewhere/layer.tar")]
    path.write_bytes(tar_of(rows))
    assert read(path, tmp_path / "s").digest == layout_digest(read_layout(layout))


def outer(layout: Path, *more: tuple[str, bytes, bytes, str], first: bool = False) -> bytes:
    """Return a layout as a tar, with members of (name, type, content, target) behind it, or before it."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        if not first:
            tar.add(layout, arcname=".")
        for name, kind, content, target in more:
            info = tarfile.TarInfo(name)
            info.type, info.size, info.linkname = kind, len(content), target
            tar.addfile(info, io.BytesIO(content))
        if first:
            tar.add(layout, arcname=".")
    return stream.getvalue()


FILE, LINK, FOLDER = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE
GLOBAL = b"21 path=ignored.json\n"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            [("other.json", FILE, b"{}", ""), ("index.json", LINK, b"", "other.json")],
            "holds 'index.json' twice",
        ),
        ([("index.json", FILE, b"{}", "")], "holds 'index.json' twice"),
        ([("x/../index.json", FILE, b"{}", "")], "leads out of it"),
        ([("/manifest.json", FILE, b"[]", "")], "leads out of it"),
        (
            [("x", LINK, b"", "."), ("x/manifest.json", FILE, b"[]", "")],
            "'x' as a directory, and as a file or a link",
        ),
        ([("index.json", FOLDER, b"", "")], "'index.json' as a directory, and as a file or a link"),
        ([("g", tarfile.XGLTYPE, GLOBAL, ""), ("index.json", FILE, b"{}", "")], "global header"),
        ([("/".join("a" * 40), FILE, b"", "")], "has more than 32 parts"),
    ],
    ids=["link", "file", "dots", "slash", "through", "folder", "global", "deep"],
)
def test_members_of_an_archive_that_programs_unpack_otherwise(
    more: list[tuple[str, bytes, bytes, str]], words: str, layout: Path, tmp_path: Path
) -> None:
    (tmp_path / "twice.tar").write_bytes(outer(layout, *more))
    fails(tmp_path / "twice.tar", tmp_path, words)
    (tmp_path / "twice.tar").write_bytes(outer(layout, *more, first=True))
    fails(tmp_path / "twice.tar", tmp_path, words)


def test_equal_files_and_folders_may_stand_in_an_archive_twice(layout: Path, tmp_path: Path) -> None:
    """Some builders write a layer as often as an image has it."""
    index = (layout / "index.json").read_bytes()
    rows = [("blobs/", FOLDER, b"", ""), ("index.json", FILE, index, "")]
    (tmp_path / "twice.tar").write_bytes(outer(layout, *rows))
    assert read(tmp_path / "twice.tar", tmp_path / "s").digest == layout_digest(read_layout(layout))


def header(name: str, kind: bytes, size: int, body: bytes = b"") -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT) + body + bytes(-len(body) % 512)


@pytest.mark.parametrize(
    "tar",
    [
        header("x", tarfile.XHDTYPE, 1 << 40),
        header("x", tarfile.GNUTYPE_LONGNAME, 1 << 33),
        header("x", tarfile.XHDTYPE, 200, b"19 mtime=1e9999999\n".ljust(200, b"\0")) + header("y", tarfile.REGTYPE, 0),
        header("x", tarfile.XHDTYPE, 13, b"13 mtime=nan\n") + header("y", tarfile.REGTYPE, 0),
        header("x", b"V", 0),
        header("x", tarfile.REGTYPE, 1000, b"short"),
        tar_of([file("a", b"")])[:512] + b"\xff" * 512,
        tar_of([file("a", b"")])[:512] + b"half a header",
        b"no tar" * 200,
    ],
    ids=range(9),
)  # fmt: skip
def test_tars_made_to_harm(tar: bytes, tmp_path: Path) -> None:
    fails(make_layout(tmp_path / "layout", tar), tmp_path, "layer 1 of .* cannot be read: ")


def test_a_sparse_member_that_stands_for_gigabytes(tmp_path: Path) -> None:
    rows = b""
    for key, value in (
        ("GNU.sparse.major", "1"),
        ("GNU.sparse.minor", "0"),
        ("GNU.sparse.realsize", "9" * 12),
    ):
        text = f" {key}={value}\n"
        rows += f"{len(text) + 2}{text}".encode()
    tar = (
        header("x", tarfile.XHDTYPE, len(rows), rows)
        + header("big", tarfile.REGTYPE, 512, b"0\n")
        + bytes(1024)
    )
    for index, made in enumerate((tar, header("big", tarfile.GNUTYPE_SPARSE, 0))):
        with pytest.raises(BuildError, match=r"layer 1 of .* holds 'big', a sparse file") as failed:
            read(make_layout(tmp_path / str(index), made), tmp_path / "scratch")
        assert failed.value.hint == HOSTILE


def test_hard_links_and_parents_that_no_engine_can_unpack(tmp_path: Path) -> None:
    hint = "the layer is damaged, or its builder broke the image specification; build the image again"
    with pytest.raises(BuildError, match="below /a, which is a file") as failed:
        read(make_layout(tmp_path / "layout", [file("a", b""), file("a/b", b"")]), tmp_path / "s")
    assert failed.value.hint == hint


def test_odd_spellings_of_a_path_are_one(tmp_path: Path) -> None:
    tar = tar_of([folder("d"), file("./d//a", b"1"), file("/d/./b", b"2")])
    assert sorted(read(make_layout(tmp_path / "layout", tar), tmp_path / "s").tree) == ["", "d", "d/a", "d/b"]


# --- fuzz ------------------------------------------------------------------------------------

CASES = 150


def forms(tmp_path: Path) -> list[tuple[str, bytes]]:
    small = make_layout(
        tmp_path / "small", [file("a", b"1" * 100), folder("d")], [symlink("l", "a")], packing="gzip"
    )
    oci, docker = archived(small, tmp_path / "oci.tar"), saved(small, tmp_path / "docker.tar")
    return [
        ("oci", oci.read_bytes()),
        ("docker", docker.read_bytes()),
        ("gzip", gzip.compress(docker.read_bytes(), mtime=0)),
    ]


def mutated(content: bytes, chance: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(data))
        change: Callable[[], None] = chance.choice(
            [
                lambda: data.__setitem__(at, chance.randrange(256)),  # noqa: B023  # called at once
                lambda: data.__delitem__(slice(at, at + chance.randint(1, 2000))),  # noqa: B023  # called at once
                lambda: data.__setitem__(slice(at, at), chance.randbytes(chance.randint(1, 600))),  # noqa: B023  # called at once
                lambda: data.__setitem__(slice(at, at + 8), b"\xff" * 8),  # noqa: B023  # called at once
            ]
        )
        change()
        if not data:
            data = bytearray(b"0")
    return bytes(data)


def attempt(path: Path, scratch: Path) -> Scanned | None:
    """Return the image, or None where it fails as it may: with a sentence and a hint."""
    try:
        return scan_image(open_path(path, scratch), {})
    except ReproError as err:
        if not (err.hint and str(err)):
            raise
        return None


def test_any_bytes_are_an_image_or_an_error(tmp_path: Path) -> None:
    """A bounded number of damaged archives: each gives the same tree, or fails by name and with a hint."""
    chance = random.Random(3)
    ended = {"read": 0, "failed": 0}
    (tmp_path / "scratch").mkdir()
    for name, content in forms(tmp_path):
        path = tmp_path / f"fuzzed-{name}"
        wanted = None
        for case in range(CASES):
            path.write_bytes(mutated(content, chance) if case else content)
            found = attempt(path, tmp_path / "scratch")
            ended["failed" if found is None else "read"] += 1
            if found:
                wanted = wanted or found.digest
            if found and found.image.manifest:  # a form where every byte is under a digest
                assert found.digest == wanted
        assert wanted
    assert min(ended.values()) > 10, ended


def test_layers_of_any_bytes(tmp_path: Path) -> None:
    chance = random.Random(4)
    tar = tar_of([*BASE, file("opt/long" + "x" * 200, b"1")])
    ended = {"read": 0, "failed": 0}
    for case in range(CASES):
        layout = make_layout(tmp_path / str(case), mutated(tar, chance))
        ended["failed" if attempt(layout, tmp_path) is None else "read"] += 1
    assert min(ended.values()) > 2, ended
