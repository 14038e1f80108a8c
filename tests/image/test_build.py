from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from reprobuild.builders.native import build_image
from reprobuild.errors import BuildError
from reprobuild.image.formats.docker_archive import write_docker_archive
from reprobuild.image.layering.merge import merge
from reprobuild.image.model import Image
from reprobuild.image.oci import write
from reprobuild.image.oci.read import layout_digest, layout_tree, open_layer, read_layout
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.infra.tar.reading import list_tar
from reprobuild.lock.system import EnvVar
from reprobuild.store.store import Store
from tests.image.made import SITE, Made, file, make_tar, symlink

MAKE_AGAIN = "the layout is damaged: make it again with `reprobuild build`"
FILES = {
    "/opt/reprobuild/lib/reprobuild_runtime/entrypoint.py": b"run\n",
    f"{SITE}/reprobuild.pth": b"import x\n",
}


@pytest.fixture
def full(made: Made) -> Made:
    wheel = made.wheel("pkg", {"pkg/a.py": b"a"}, scripts="[console_scripts]\npkg = pkg.a:main\n")
    made.compiled(wheel.file.sha256, {f"{SITE}/pkg/__pycache__/a.cpython-311.pyc": b"code"})
    made.wheel("proj", {"proj.pth": b"/src/proj\n"}, built=True)
    made.source("proj", [file("proj.py", b"x"), symlink("l", "proj.py")])
    return made


def build(made: Made, out: Path, **more: Any) -> Image:
    lock = more.pop("lock", None) or made.lock()
    return build_image(lock, made.store, out, **{"files": FILES, "reference": "demo:1", **more})


def blobs(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "blobs" / "sha256").iterdir()}


def test_a_layout_is_whole_and_every_digest_and_size_is_right(full: Made, tmp_path: Path) -> None:
    image = build(full, tmp_path / "out")
    folder = tmp_path / "out" / "image"
    found = blobs(folder)
    assert all(hashlib.sha256(content).hexdigest() == name for name, content in found.items())
    assert json.loads((folder / "oci-layout").read_bytes()) == {"imageLayoutVersion": "1.0.0"}
    (named,) = json.loads((folder / "index.json").read_bytes())["manifests"]
    assert named["digest"] == image.manifest
    assert named["annotations"]["org.opencontainers.image.ref.name"] == "demo:1"
    manifest = json.loads(found[named["digest"][7:]])
    assert manifest["config"]["digest"] == image.config
    config = json.loads(found[image.config[7:]])
    for item in (named, manifest["config"], *manifest["layers"]):
        assert item["size"] == len(found[item["digest"][7:]])
    assert len(found) == image.layers + 2
    for item, diff_id in zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True):
        assert item["mediaType"] == "application/vnd.oci.image.layer.v1.tar+zstd"
        tar = zstandard.ZstdDecompressor().decompressobj().decompress(found[item["digest"][7:]])
        assert f"sha256:{hashlib.sha256(tar).hexdigest()}" == diff_id
    assert {path.name for path in folder.parent.iterdir()} == {"image"}


@pytest.mark.parametrize(
    ("reference", "full"),
    [
        ("demo", "docker.io/library/demo:latest"),
        ("demo:1", "docker.io/library/demo:1"),
        ("team/demo:1", "docker.io/team/demo:1"),
        ("localhost/demo:1", "localhost/demo:1"),
        ("registry.example:5000/demo", "registry.example:5000/demo:latest"),
        ("registry.example/team/demo:1", "registry.example/team/demo:1"),
    ],
)
def test_containerd_finds_an_image_by_its_full_name(reference: str, full: str) -> None:
    assert write.name_annotations(reference) == {write.REFERENCE: reference, "io.containerd.image.name": full}


def test_the_configuration_is_that_of_the_lock(full: Made, tmp_path: Path) -> None:
    image = build(full, tmp_path)
    config = read_layout(tmp_path / "image").config
    assert (config["os"], config["architecture"], config["created"]) == (
        "linux",
        "amd64",
        "2023-11-14T22:13:20Z",
    )
    assert "OMP_NUM_THREADS=4" in config["config"]["Env"]
    assert config["config"]["WorkingDir"] == "/src"
    assert [line["created_by"] for line in config["history"]] == [
        "reprobuild: debian bookworm, 0 packages",
        "reprobuild: /opt/env: Python 3.11",
        "reprobuild: 2 wheels",
        "reprobuild: /src/proj: cccccccccccc",
        "reprobuild: reprobuild's own files",
    ]
    assert str(tmp_path) not in json.dumps(config)
    assert msgspec.json.decode(msgspec.json.encode(image), type=Image) == image


def test_a_variant_of_the_platform_is_kept(full: Made, tmp_path: Path) -> None:
    build(full, tmp_path, lock=full.lock(platform="linux/arm/v7"))
    config = read_layout(tmp_path / "image").config
    assert (config["os"], config["architecture"], config["variant"]) == ("linux", "arm", "v7")


def test_two_builds_are_the_same_bytes(full: Made, tmp_path: Path) -> None:
    """From the cache, and in another store."""
    first = build(full, tmp_path / "a")
    again = build(full, tmp_path / "b")
    full.store = Store(full.store.root.rename(tmp_path / "moved"))
    for made in full.store.root.joinpath("made").iterdir():
        made.unlink()
    assert build(full, tmp_path / "c") == again == first
    assert (
        blobs(tmp_path / "a" / "image") == blobs(tmp_path / "b" / "image") == blobs(tmp_path / "c" / "image")
    )


def test_the_tree_digest_can_be_had_from_the_layout(full: Made, tmp_path: Path) -> None:
    image = build(full, tmp_path)
    layout = read_layout(tmp_path / "image")
    assert layout_digest(layout) == image.tree
    assert (layout.manifest, layout.config_digest, layout.reference) == (
        image.manifest,
        image.config,
        "demo:1",
    )
    tree = layout_tree(layout)
    assert tree["usr/bin/python-again"].type == "file"
    assert {f"{SITE}/pkg/__pycache__/a.cpython-311.pyc", "src/proj/l", "opt/env/bin/pkg"} < set(tree)


def test_compression_changes_the_manifest_and_not_the_tree(full: Made, tmp_path: Path) -> None:
    one, other = build(full, tmp_path / "a"), build(full, tmp_path / "b", level=1)
    assert (one.tree, one.config) == (other.tree, other.config)


def test_any_input_changes_the_tree(full: Made, tmp_path: Path) -> None:
    first = build(full, tmp_path)
    trees = {first.tree}
    for lock, files in (
        (full.lock(workdir="/work"), FILES),
        (full.lock(environment=()), FILES),
        (full.lock(), {**FILES, "/opt/reprobuild/more": b""}),
    ):
        trees.add(build(full, tmp_path, lock=lock, files=files).tree)
    full.source("other", [file("x", b"")])
    trees.add(build(full, tmp_path).tree)
    assert len(trees) == 5
    assert build(full, tmp_path, lock=full.lock(sources=tuple(full.sources[:1]))).tree == first.tree


def test_the_epoch_changes_the_manifest_and_not_the_tree(full: Made, tmp_path: Path) -> None:
    one, other = build(full, tmp_path / "a"), build(full, tmp_path / "b", lock=full.lock(epoch=1))
    assert one.tree == other.tree
    assert one.manifest != other.manifest


def test_blobs_are_hard_links_that_nobody_writes_to(full: Made, tmp_path: Path) -> None:
    build(full, tmp_path)
    layout = read_layout(tmp_path / "image")
    for _, digest, _ in layout.layers:
        assert layout.blob(digest).samefile(full.store.blob(digest))
        assert layout.blob(digest).stat().st_mode & 0o222 == 0


def test_blobs_are_copied_where_links_cannot_be(
    full: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr("os.link", refuse)
    image = build(full, tmp_path)
    layout = read_layout(tmp_path / "image")
    assert layout_digest(layout) == image.tree
    assert layout.blob(layout.layers[0][1]).stat().st_nlink == 1


def test_a_failed_build_leaves_the_former_image(
    full: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = build(full, tmp_path)

    def fail(value: Any) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(write, "encode", fail)
    with pytest.raises(KeyboardInterrupt):
        build(full, tmp_path, reference="demo:2")
    assert read_layout(tmp_path / "image").manifest == image.manifest
    assert {path.name for path in tmp_path.iterdir() if "image" in path.name} == {"image"}
    monkeypatch.undo()
    build(full, tmp_path, reference="demo:2")
    assert read_layout(tmp_path / "image").reference == "demo:2"


def test_a_layout_that_cannot_take_its_place_leaves_the_former(
    full: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = build(full, tmp_path)
    rename = Path.rename

    def fail(self: Path, target: Path) -> Path:
        if self.name == "new" and target.name == "image":
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(OSError, match="No space"):
        build(full, tmp_path, reference="demo:2")
    assert read_layout(tmp_path / "image").manifest == image.manifest
    assert {path.name for path in tmp_path.iterdir() if "image" in path.name} == {"image"}


def test_values_that_no_dockerfile_can_hold_travel_in_a_file(full: Made, tmp_path: Path) -> None:
    settings = (
        EnvVar(name="TWO", value="1\n2"),
        EnvVar(name="ONE", value="x"),
        EnvVar(name="Ä", value="\t"),
    )
    build(full, tmp_path, lock=full.lock(environment=settings))
    layout = read_layout(tmp_path / "image")
    assert [pair for pair in layout.config["config"]["Env"] if pair[0] not in "PLR"] == ["ONE=x"]
    with open_layer(layout, len(layout.layers) - 1) as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
        texts = {info.name: tar.extractfile(info).read() for info in tar if info.isfile()}
    assert json.loads(texts["opt/reprobuild/environ.json"]) == {"TWO": "1\n2", "Ä": "\t"}
    given = {**FILES, "/opt/reprobuild/environ.json": b"{}"}
    build(full, tmp_path, lock=full.lock(environment=settings), files=given)
    assert layout_tree(read_layout(tmp_path / "image"))["opt/reprobuild/environ.json"].size == 2


def test_a_docker_archive_holds_the_same_image(full: Made, tmp_path: Path) -> None:
    image = build(full, tmp_path)
    layout = read_layout(tmp_path / "image")
    streams = [io.BytesIO(), io.BytesIO()]
    for stream in streams:
        write_docker_archive(layout, stream)
    assert streams[0].getvalue() == streams[1].getvalue()
    with tarfile.open(fileobj=io.BytesIO(streams[0].getvalue())) as tar:
        texts = {info.name: tar.extractfile(info).read() for info in tar if info.isfile()}
    (manifest,) = json.loads(texts["manifest.json"])
    assert manifest["RepoTags"] == ["demo:1"]
    assert manifest["Config"] == f"{image.config[7:]}.json"
    config = json.loads(texts[manifest["Config"]])
    assert f"sha256:{hashlib.sha256(texts[manifest['Config']]).hexdigest()}" == image.config
    layers = [texts[name] for name in manifest["Layers"]]
    assert [f"sha256:{hashlib.sha256(tar).hexdigest()}" for tar in layers] == config["rootfs"]["diff_ids"]
    assert merge(list(list_tar(io.BytesIO(tar))) for tar in layers) == layout_tree(layout)


def _damage(path: Path, content: bytes) -> None:
    path.unlink()
    path.write_bytes(content)


def test_a_damaged_layer_is_seen_when_it_is_read(full: Made, tmp_path: Path) -> None:
    build(full, tmp_path)
    layout = read_layout(tmp_path / "image")
    path = layout.blob(layout.layers[-1][1])
    content = path.read_bytes()
    for damaged in (b"none", content[:-5], zstandard.ZstdCompressor().compress(b"x")):
        _damage(path, damaged)
        for check in (layout_digest, lambda layout: write_docker_archive(layout, io.BytesIO())):
            with pytest.raises(BuildError, match=path.name) as caught:
                check(layout)
            assert caught.value.hint == MAKE_AGAIN
    path.unlink()
    with pytest.raises(BuildError, match="No such file") as caught:
        layout_digest(layout)
    assert caught.value.hint == MAKE_AGAIN


def test_what_is_no_layout_is_refused(full: Made, tmp_path: Path) -> None:
    image = build(full, tmp_path)
    folder = tmp_path / "image"
    _damage(folder / "blobs" / "sha256" / image.config[7:], b"{}")
    with pytest.raises(BuildError, match="the bytes of sha256:") as caught:
        read_layout(folder)
    assert caught.value.hint == MAKE_AGAIN
    for text in (b"", b"{}", b'{"manifests": []}', b'{"manifests": [{"mediaType": 1}]}', b"[]"):
        _damage(folder / "index.json", text)
        with pytest.raises(BuildError, match="is not an OCI layout with one image"):
            read_layout(folder)


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 100_000,
        b'{"manifests": [{"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": 5}]}',
        b'{"manifests": [{"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": "sha256:../../x"}]}',
        b'{"manifests": [{"mediaType": "application/vnd.oci.image.index.v1+json", "digest": "", "annotations": []}]}',
        b" " * (5 << 20),
    ],
)
def test_an_index_made_to_harm_is_refused(full: Made, tmp_path: Path, text: bytes) -> None:
    build(full, tmp_path)
    _damage(tmp_path / "image" / "index.json", text)
    with pytest.raises(BuildError, match="is not an OCI layout with one image") as caught:
        read_layout(tmp_path / "image")
    assert caught.value.hint == MAKE_AGAIN


def test_a_pipe_in_the_place_of_an_index_is_not_waited_for(full: Made, tmp_path: Path) -> None:
    build(full, tmp_path)
    (tmp_path / "image" / "index.json").unlink()
    os.mkfifo(tmp_path / "image" / "index.json")
    with pytest.raises(BuildError, match=r"index\.json is missing"):
        read_layout(tmp_path / "image")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"config": []}, r"\$.config"),
        ({"config": {"Env": "PATH=/"}}, r"\$.config.Env"),
        ({"config": {"Volumes": ["/x"]}}, r"\$.config.Volumes"),
        ({"rootfs": {"diff_ids": [1]}}, "1 is no sha256 digest"),
        ({"rootfs": {"diff_ids": []}}, "shorter"),
    ],
)
def test_a_configuration_of_other_types_is_refused(
    full: Made, tmp_path: Path, config: dict[str, Any], words: str
) -> None:
    image = build(full, tmp_path)
    folder = tmp_path / "image"
    layout = read_layout(folder)
    text = write.encode({**layout.config, **config})
    manifest = json.loads(layout.blob(image.manifest[7:]).read_bytes())
    digest = hashlib.sha256(text).hexdigest()
    layout.blob(digest).write_bytes(text)
    manifest["config"]["digest"] = f"sha256:{digest}"
    text = write.encode(manifest)
    digest = hashlib.sha256(text).hexdigest()
    layout.blob(digest).write_bytes(text)
    index = json.loads((folder / "index.json").read_bytes())
    index["manifests"][0]["digest"] = f"sha256:{digest}"
    _damage(folder / "index.json", write.encode(index))
    with pytest.raises(BuildError, match=words) as caught:
        read_layout(folder)
    assert caught.value.hint == MAKE_AGAIN


@pytest.mark.parametrize(
    ("member", "words"),
    [
        ((TarEntry(path="../evil", type="directory", mode=0o755), b""), "the unsafe path '../evil'"),
        (
            (TarEntry(path="h", type="hardlink", mode=0o644, target="../../etc/passwd"), b""),
            "which is no file",
        ),
        (file("n" * 256, b""), "of 256 bytes"),
    ],
)
def test_a_layer_made_to_harm_is_refused(
    full: Made, tmp_path: Path, member: tuple[TarEntry, bytes], words: str
) -> None:
    build(full, tmp_path)
    layout = read_layout(tmp_path / "image")
    tar = make_tar([member])
    digest = hashlib.sha256(tar).hexdigest()
    layout.blob(digest).write_bytes(tar)
    hostile = msgspec.structs.replace(layout, layers=((write.LAYER, digest, digest),))
    with pytest.raises(BuildError, match=str(tmp_path)) as caught:
        layout_tree(hostile)
    assert words in str(caught.value)
    assert caught.value.hint


def rewritten(folder: Path, packing: str, pack: Any) -> None:
    """Write the layout anew as another builder would: an index in an index, and other compression."""
    layout = read_layout(folder)
    manifest = json.loads(layout.blob(layout.manifest[7:]).read_bytes())
    for index in range(len(layout.layers)):
        with open_layer(layout, index) as stream:
            content = pack(b"".join(iter(lambda: stream.read(1 << 20), b"")))  # called at once
        digest = hashlib.sha256(content).hexdigest()
        layout.blob(digest).write_bytes(content)
        manifest["layers"][index] = {"mediaType": packing, "digest": f"sha256:{digest}", "size": len(content)}
    found = {"mediaType": write.MANIFEST, "digest": ""}
    for kind, value in ((write.MANIFEST, manifest), (write.INDEX, {"manifests": [found]})):
        text = write.encode(value)
        digest = hashlib.sha256(text).hexdigest()
        layout.blob(digest).write_bytes(text)
        found.update(mediaType=kind, digest=f"sha256:{digest}")
    (folder / "index.json").write_bytes(write.encode({"manifests": [found]}))


def test_layouts_of_other_builders_are_read(full: Made, tmp_path: Path) -> None:
    image = build(full, tmp_path)
    for packing, pack in (
        ("application/vnd.oci.image.layer.v1.tar+gzip", gzip.compress),
        ("application/vnd.docker.image.rootfs.diff.tar.gzip", gzip.compress),
        ("application/vnd.oci.image.layer.v1.tar", bytes),
    ):
        rewritten(tmp_path / "image", packing, pack)
        layout = read_layout(tmp_path / "image")
        assert layout_digest(layout) == image.tree
        assert layout.manifest != image.manifest
    rewritten(tmp_path / "image", "application/x+lzma", bytes)
    with pytest.raises(BuildError, match="unknown kind application/x") as caught:
        layout_digest(read_layout(tmp_path / "image"))
    assert caught.value.hint == MAKE_AGAIN


@pytest.mark.parametrize("first", [0, 65])
def test_a_poisoned_memory_never_comes_under_the_honest_digest(
    full: Made, tmp_path: Path, first: int
) -> None:
    """Each remembered layer is replaced by a valid one with a file more; its `diff_id` stays."""
    honest = build(full, tmp_path / "honest")
    for path in sorted((full.store.root / "made").iterdir()):
        kept = full.store.recall(path.name)
        if not isinstance(kept, dict) or "diff_id" not in kept:
            continue
        evil = io.BytesIO(
            zstandard.ZstdDecompressor()
            .decompressobj()
            .decompress(full.store.blob(kept["blob"]).read_bytes())
        )
        with tarfile.open(fileobj=evil, mode="a") as tar:
            info = tarfile.TarInfo("usr/bin/evil")
            info.mode, info.size = 0o4755, 4
            tar.addfile(info, io.BytesIO(b"evil"))
        blob = full.store.add(zstandard.ZstdCompressor().compress(evil.getvalue()))
        size = full.store.blob(blob).stat().st_size
        path.write_bytes(
            path.read_bytes()[:first] + json.dumps({**kept, "blob": blob, "size": size}).encode()
        )
    image = build_image(
        full.lock(), Store(full.store.root), tmp_path / "out", files=FILES, reference="demo:1"
    )
    assert image == honest
    layout = read_layout(tmp_path / "out" / "image")
    assert "usr/bin/evil" not in layout_tree(layout)
