"""Images of other builders, in each form that they write, become our layout: the same files, our times and form."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import zstandard

from reprobuild.builders.adopt import adopt_image
from reprobuild.errors import BuildError
from reprobuild.image.layering.merge import Tree
from reprobuild.image.layering.packed import MAKE_AGAIN
from reprobuild.image.model import Image
from reprobuild.image.oci.foreign import read_foreign
from reprobuild.image.oci.open import LARGEST_JSON
from reprobuild.image.oci.read import layout_digest, open_layer, read_layout
from reprobuild.infra.tar.reading import read_tar
from reprobuild.recipe.runtime_config import RuntimeConfig

EPOCH = 1_700_000_000
AGAIN = "the builder was interrupted, or wrote another form: build the image again"
UNSAFE = "no builder writes such a layer by itself; do not use the image"
CONFIG = {
    "Hostname": "", "ArgsEscaped": True, "AttachStdin": False, "Env": ["B=2", "A=1"], "Entrypoint": ["/e"],
    "Cmd": None, "WorkingDir": "/w", "User": "7:7", "Labels": {"ours": "1", "io.buildah.version": "1.28.2"},
}  # fmt: skip

Member = tuple[str, bytes, str, int, bytes]  # name, type, link, mode, content


def member(
    name: str, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644, content: bytes = b""
) -> Member:
    return name, kind, link, mode, content


def layer(*members: Member, time: float = 5.25) -> bytes:
    """Return a tar as builders write them: with fractions of seconds, and names of owners."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, kind, link, mode, content in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.mode, info.size, info.mtime = kind, link, mode, len(content), time
            info.uid, info.gid, info.uname = 3, 4, "someone"
            if content == b"capable":
                info.pax_headers = {"SCHILY.xattr.security.capability": "\x01\x02\udcff"}
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


LAYERS = (
    layer(
        member("./", tarfile.DIRTYPE, mode=0o755), member("etc/", tarfile.DIRTYPE, mode=0o700),
        member("etc/a", content=b"a"), member("etc/gone", content=b"x"), member("bin", tarfile.SYMTYPE, "usr/bin"),
        member("etc/b", tarfile.LNKTYPE, "./etc/a"), member("ping", mode=0o4755, content=b"capable"),
    ),
    layer(
        member("./", tarfile.DIRTYPE, mode=0o755), member("etc/", tarfile.DIRTYPE, mode=0o700),
        member("etc/.wh.gone"), member("etc/hostname", mode=0o755), member(r"lib/a\x2db.slice", content=b"s"),
    ),
)  # fmt: skip


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def image_json(layers: Sequence[bytes], config: Mapping[str, Any] = CONFIG) -> bytes:
    diff_ids = [f"sha256:{digest(content)}" for content in layers]
    return json.dumps({"config": config, "rootfs": {"type": "layers", "diff_ids": diff_ids}}).encode()


def layout_files(
    layers: Sequence[bytes], pack: Callable[[bytes], bytes], kind: str, config: Mapping[str, Any] = CONFIG
) -> dict[str, bytes]:
    """Return the files of an OCI layout with an index in its index, as buildx writes attestations."""
    blobs: dict[str, bytes] = {}

    def add(content: bytes, media_type: str) -> dict[str, Any]:
        blobs[f"blobs/sha256/{digest(content)}"] = content
        return {"mediaType": media_type, "digest": f"sha256:{digest(content)}", "size": len(content)}

    start = "application/vnd.oci.image"
    packed = [add(pack(content), f"{start}.layer.v1.tar{kind}") for content in layers]
    manifest = {"config": add(image_json(layers, config), f"{start}.config.v1+json"), "layers": packed}
    inner = add(json.dumps({"manifests": [add(json.dumps(manifest).encode(), f"{start}.manifest.v1+json")]}).encode(),
                f"{start}.index.v1+json")  # fmt: skip
    return {"oci-layout": b"{}", "index.json": json.dumps({"manifests": [inner]}).encode(), **blobs}


def docker_files(layers: Sequence[bytes], config: Mapping[str, Any] = CONFIG) -> dict[str, bytes]:
    image = image_json(layers, config)
    names = [f"{index}/layer.tar" for index in range(len(layers))]
    manifest = [{"Config": f"{digest(image)}.json", "RepoTags": None, "Layers": names}]
    return {
        f"{digest(image)}.json": image, "manifest.json": json.dumps(manifest).encode(),
        **dict(zip(names, layers, strict=True)),
    }  # fmt: skip


def write_folder(files: Mapping[str, bytes], path: Path) -> Path:
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path


def write_tar(files: Mapping[str, bytes], path: Path, links: Mapping[str, str] | None = None) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            if target := (links or {}).get(name):
                info.type, info.linkname = tarfile.SYMTYPE, target
            else:
                info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def adopted(path: Path, out: Path, builder: str = "podman", **more: Any) -> Image:
    out.mkdir(exist_ok=True)
    foreign = read_foreign(path)
    return adopt_image(
        foreign, out, builder=builder, platform="linux/amd64", epoch=EPOCH, reference="name:1", **more
    )


def plain(content: bytes) -> bytes:
    return content


def test_every_form_gives_the_same_image(tmp_path: Path) -> None:
    zstd = layout_files(LAYERS, zstandard.ZstdCompressor().compress, "+zstd")
    packed = layout_files(LAYERS, lambda content: gzip.compress(content, mtime=0), "+gzip")
    forms = [
        write_folder(zstd, tmp_path / "zstd"),
        write_folder(packed, tmp_path / "gzip"),
        write_tar(layout_files(LAYERS, plain, ""), tmp_path / "oci.tar"),
        write_tar({f"./{name}": content for name, content in packed.items()}, tmp_path / "gzip.tar"),
        write_tar(docker_files(LAYERS), tmp_path / "docker.tar"),
    ]
    images = {adopted(path, tmp_path / f"out{index}") for index, path in enumerate(forms)}
    (image,) = images
    assert (image.builder, image.layers, image.reference) == ("podman", 2, "name:1")
    layout = read_layout(tmp_path / "out0" / "image")
    assert layout_digest(layout) == image.tree
    assert (layout.config_digest, layout.manifest) == (image.config, image.manifest)
    assert not [path for path in (tmp_path / "out0").iterdir() if path.name != "image"]


def test_an_archive_with_both_manifests(tmp_path: Path) -> None:
    """As `docker save` writes it since Docker 25; one that states another image is refused."""
    good = layout_files(LAYERS, plain, "")
    image = image_json(LAYERS, CONFIG)
    names = [f"blobs/sha256/{digest(content)}" for content in (image, *LAYERS)]
    row = {"Config": names[0], "RepoTags": ["a:1"], "Layers": names[1:]}
    both = write_tar({**good, "manifest.json": json.dumps([row]).encode()}, tmp_path / "both.tar")
    assert adopted(both, tmp_path / "o1") == adopted(write_tar(good, tmp_path / "one.tar"), tmp_path / "o2")
    for bad in ({**row, "Layers": names[:0:-1]}, {**row, "Config": names[1]}):
        write_tar({**good, "manifest.json": json.dumps([bad]).encode()}, both)
        with pytest.raises(
            BuildError, match=r"manifest.json and index.json state different images"
        ) as failed:
            adopted(both, tmp_path / "o3")
        assert failed.value.hint == AGAIN


def test_what_is_kept_and_what_is_set(tmp_path: Path) -> None:
    seen: list[tuple[Tree, RuntimeConfig]] = []
    path = write_tar(docker_files(LAYERS), tmp_path / "docker.tar")
    adopted(path, tmp_path / "out", check=lambda tree, config: seen.append((tree, config)))
    ((tree, config),) = seen
    assert list(tree) == ["", "bin", "etc", "etc/a", "etc/b", "lib", "lib/a\\x2db.slice", "ping"]
    assert (tree["etc"].mode, tree["etc"].uid, tree["etc"].gid) == (0o700, 3, 4)
    assert (tree["ping"].mode, tree["ping"].xattrs) == (0o4755, (("security.capability", "0102ff"),))
    assert tree["etc/b"].sha256 == tree["etc/a"].sha256 == digest(b"a")
    assert config.document() == {
        "Env": ["A=1", "B=2"], "Entrypoint": ["/e"], "WorkingDir": "/w", "User": "7:7", "Labels": {"ours": "1"},
    }  # fmt: skip
    layout = read_layout(tmp_path / "out" / "image")
    assert layout.config["config"] == config.document()
    assert layout.runtime == config
    assert layout.config["created"] == "2023-11-14T22:13:20Z"
    assert [line["created_by"] for line in layout.config["history"]] == [
        "reprobuild: podman, layer 1", "reprobuild: podman, layer 2",
    ]  # fmt: skip
    for index in range(2):
        with open_layer(layout, index) as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
            assert {(info.mtime, info.uname) for info in tar} == {(EPOCH, "")}


@pytest.mark.parametrize(
    ("builder", "entry", "stays"),
    [
        ("podman", member("etc/hostname", mode=0o755), False),
        ("docker", member("etc/hostname", mode=0o755), True),
        ("podman", member("etc/hostname", mode=0o644), True),
        ("podman", member("etc/hostname", mode=0o755, content=b"h"), True),
        ("podman", member("etc/hostname", tarfile.SYMTYPE, "x", mode=0o755), True),
    ],
)
def test_only_what_is_exactly_as_described_is_left_out(
    builder: str, entry: Member, stays: bool, tmp_path: Path
) -> None:
    path = write_tar(docker_files([layer(entry)]), tmp_path / "docker.tar")
    adopted(path, tmp_path / "out", builder)
    with open_layer(read_layout(tmp_path / "out" / "image"), 0) as stream:
        assert [entry.path for entry, _ in read_tar(stream)] == (["etc/hostname"] if stays else [])
    labels = read_layout(tmp_path / "out" / "image").config["config"]["Labels"]
    assert ("io.buildah.version" in labels) is (builder != "podman")


def test_the_same_layer_twice_is_a_link_in_an_archive(tmp_path: Path) -> None:
    files = docker_files([LAYERS[0], LAYERS[0]])
    path = write_tar(files, tmp_path / "docker.tar", links={"1/layer.tar": "../0/layer.tar"})
    assert adopted(path, tmp_path / "out").layers == 2


def test_a_check_that_raises_leaves_everything_as_it_was(tmp_path: Path) -> None:
    path = write_tar(docker_files(LAYERS), tmp_path / "docker.tar")
    before = adopted(path, tmp_path / "out")

    def refuse(tree: Tree, config: RuntimeConfig) -> None:
        raise BuildError("no")

    with pytest.raises(BuildError, match=r"^no$"):
        adopted(write_tar(docker_files(LAYERS[:1]), tmp_path / "other.tar"), tmp_path / "out", check=refuse)
    assert read_layout(tmp_path / "out" / "image").manifest == before.manifest
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["image"]


@pytest.mark.parametrize(
    ("entry", "what"),
    [
        (member("../escape"), "unsafe path '../escape'"),
        (member("a/../../escape"), "unsafe path 'a/../../escape'"),
        (member("a//b"), "unsafe path 'a//b'"),
        (member("link", tarfile.LNKTYPE, "../../etc/passwd"), r"unsafe path '../../etc/passwd'"),
        (member("link", tarfile.LNKTYPE, "etc/none"), "a hard link to /etc/none, which is no file"),
        (member("label", b"V"), "tar type b'V', which a layer cannot hold"),
        (member("ping/sh"), "writes below /ping, which is a file"),
    ],
)
def test_hostile_entries_are_refused_by_name(entry: Member, what: str, tmp_path: Path) -> None:
    path = write_tar(docker_files([LAYERS[0], layer(entry)]), tmp_path / "docker.tar")
    with pytest.raises(BuildError) as failed:
        adopted(path, tmp_path / "out")
    assert what in str(failed.value)
    assert (
        failed.value.hint in (UNSAFE, MAKE_AGAIN)
        or "its builder broke the image specification" in failed.value.hint
    )
    assert list((tmp_path / "out").iterdir()) == []
    assert not (tmp_path / "escape").exists()


def changed(files: dict[str, bytes], part: str, content: bytes) -> dict[str, bytes]:
    return {name: content if part in name else old for name, old in files.items()}


@pytest.mark.parametrize(
    ("files", "what", "hint"),
    [
        (changed(docker_files(LAYERS), "1/layer", LAYERS[0]), "is not what it states", MAKE_AGAIN),
        (changed(docker_files(LAYERS), "1/layer", LAYERS[1][:700]), "cannot be read: ", MAKE_AGAIN),
        (changed(docker_files(LAYERS), digest(image_json(LAYERS)), b"{}"), "are others", AGAIN),
        (changed(docker_files(LAYERS), "manifest", b"[]"), "holds 0 images", AGAIN),
        (changed(docker_files(LAYERS), "manifest", b"[" * 100_000), "is a damaged image", AGAIN),
        (changed(docker_files(LAYERS), "manifest", b" " * (LARGEST_JSON + 1)), "is larger than 4194304 bytes", AGAIN),
        ({"other": b""}, "neither index.json nor manifest.json", AGAIN),
        (changed(layout_files(LAYERS, plain, ""), "index", b'{"manifests": []}'), "names no image", AGAIN),
        (layout_files(LAYERS, plain, "+lzma"), "is of the unknown kind", MAKE_AGAIN),
        (layout_files(LAYERS, plain, "+zstd"), "cannot be read", MAKE_AGAIN),
    ],
)  # fmt: skip
def test_damaged_archives_are_refused(files: dict[str, bytes], what: str, hint: str, tmp_path: Path) -> None:
    with pytest.raises(BuildError) as failed:
        adopted(write_tar(files, tmp_path / "image.tar"), tmp_path / "out")
    assert what in str(failed.value)
    assert failed.value.hint == hint
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"no tar" * 1000])
def test_what_is_no_archive(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    for path in (tmp_path / "file", tmp_path / "gone"):
        with pytest.raises(BuildError, match="is not an image of the builder: ") as failed:
            adopted(path, tmp_path / "out")
        assert failed.value.hint == AGAIN


@pytest.mark.parametrize(
    "config", [{"Healthcheck": {"Test": ["NONE"]}}, {"OnBuild": ["RUN x"], "Shell": ["s"]}]
)
def test_a_configuration_with_more_than_the_recipe_sets(config: dict[str, Any], tmp_path: Path) -> None:
    path = write_tar(docker_files(LAYERS, {**CONFIG, **config}), tmp_path / "docker.tar")
    with pytest.raises(BuildError, match=f"has {', '.join(config)} in its configuration") as failed:
        adopted(path, tmp_path / "out", "docker")
    assert failed.value.hint == "does docker add something to every image? See its own configuration"


def test_a_configuration_that_is_no_object(tmp_path: Path) -> None:
    path = write_tar(docker_files(LAYERS, ["x"]), tmp_path / "docker.tar")  # type: ignore[arg-type]  # on purpose
    with pytest.raises(BuildError, match=r"got `array` - at `\$.config`") as failed:
        adopted(path, tmp_path / "out")
    assert failed.value.hint == AGAIN


PEAK = """
import sys
from pathlib import Path
from reprobuild.builders.adopt import adopt_image
from reprobuild.image.oci.foreign import read_foreign
foreign = read_foreign(Path(sys.argv[1]))
adopt_image(foreign, Path(sys.argv[2]), builder="docker", platform="linux/amd64", epoch=0, reference="a:1")
print(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
"""


def test_memory_does_not_grow_with_a_file(tmp_path: Path) -> None:
    """300 MB of a layer of some kilobytes."""
    size = 300_000_000
    info = tarfile.TarInfo("zeros")
    info.size = size
    tar = info.tobuf() + bytes(-(-size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE + 2 * tarfile.BLOCKSIZE)
    path = write_folder(
        layout_files([tar], zstandard.ZstdCompressor().compress, "+zstd"), tmp_path / "layout"
    )
    (tmp_path / "out").mkdir()
    argv = [sys.executable, "-c", PEAK, str(path), str(tmp_path / "out")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 120_000  # kilobytes
