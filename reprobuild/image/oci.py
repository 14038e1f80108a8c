"""OCI image layouts: written from layers of the store, read back with every digest checked.

https://github.com/opencontainers/image-spec/blob/main/image-layout.md
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import shutil
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, cast

import zstandard
from msgspec import Struct

from reprobuild.archive import CHUNK, Entry, list_tar
from reprobuild.errors import BuildError
from reprobuild.image.blobs import Layer
from reprobuild.image.tree import Tree, merge, tree_digest
from reprobuild.store import Store
from reprobuild.whole import whole_folder

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
REFERENCE = "org.opencontainers.image.ref.name"
MAKE_AGAIN = "the layout is damaged: make it again with `reprobuild build`"


class Written(Struct, frozen=True, kw_only=True):
    """The digests ("sha256:" and hex) of a layout that was written."""

    config: str
    manifest: str


class Layout(Struct, frozen=True, kw_only=True):
    """A layout that was read. `layers` are (media type, digest in hex, diff_id in hex), lowest first."""

    folder: Path
    reference: str
    manifest: str
    config_digest: str
    config: dict[str, Any]
    layers: tuple[tuple[str, str, str], ...]

    def blob(self, digest: str) -> Path:
        """Return the file of a digest in hex."""
        return self.folder / "blobs" / "sha256" / digest


def encode(value: Any) -> bytes:
    """Return JSON with sorted keys and no spaces: the one form of every file of a layout."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def image_json(layers: Sequence[Layer], config: dict[str, Any], platform: str, created: str) -> bytes:
    """Return the image configuration: `config`, the platform, and one line of history for each layer."""
    history = [{"created": created, "created_by": f"reprobuild: {layer.title}"} for layer in layers]
    return encode(
        {
            **_platform(platform),
            "created": created,
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.diff_id}" for layer in layers]},
            "history": history,
        }
    )


def write_layout(
    folder: Path, store: Store, layers: Sequence[Layer], image: bytes, platform: str, reference: str
) -> Written:
    """Write a layout, whole or not at all; one that stands there is replaced.

    Args:
        folder: where it shall stand; the folder above is made.
        layers: in the store; each blob is a hard link, or a copy on another file system.
        image: what `image_json` returned.
        platform: `os/architecture[/variant]`.
        reference: the name of the image.

    Raises:
        FetchError: a blob of the store is missing or damaged.
    """
    with whole_folder(folder) as part:
        blobs = part / "blobs" / "sha256"
        blobs.mkdir(parents=True)
        descriptors = []
        for layer in layers:
            _link(store.verified(layer.blob, f"the layer `{layer.title}`"), blobs / layer.blob)
            descriptors.append(_descriptor(f"{LAYER}+zstd", layer.blob, layer.size))
        config = _write(blobs, CONFIG, image)
        text = encode({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": descriptors})
        manifest = _write(blobs, MANIFEST, text)
        named = {**manifest, "platform": _platform(platform), "annotations": names(reference)}
        (part / "index.json").write_bytes(
            encode({"schemaVersion": 2, "mediaType": INDEX, "manifests": [named]})
        )
        (part / "oci-layout").write_bytes(encode({"imageLayoutVersion": "1.0.0"}))
    return Written(config=config["digest"], manifest=manifest["digest"])


def names(reference: str) -> dict[str, str]:
    """Return the annotations by which tools find an image in a layout.

    containerd, and Docker with its store, look for the full name, as
    https://github.com/distribution/reference normalises it; others for the OCI annotation.
    """
    path, _, tag = (
        reference.rpartition(":") if ":" in reference.rpartition("/")[2] else (reference, "", "latest")
    )
    first, slash, _ = path.partition("/")
    if not slash:
        path = f"docker.io/library/{path}"
    elif not set(first) & {".", ":"} and first != "localhost":
        path = f"docker.io/{path}"
    return {REFERENCE: reference, "io.containerd.image.name": f"{path}:{tag}"}


def _platform(platform: str) -> dict[str, str]:
    return dict(zip(("os", "architecture", "variant"), platform.split("/"), strict=False))


def _descriptor(media_type: str, digest: str, size: int) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": size}


def _write(blobs: Path, media_type: str, content: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    path = blobs / digest
    path.write_bytes(content)
    path.chmod(0o444)
    return _descriptor(media_type, digest, len(content))


def _link(source: Path, target: Path) -> None:
    if target.exists():  # two layers with the same bytes
        return
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without hard links
        shutil.copyfile(source, target)
        target.chmod(0o444)


def read_layout(folder: Path) -> Layout:
    """Read a layout with one image, from any builder.

    Raises:
        BuildError: it is not a layout, holds several images, or a digest is wrong. The layers are checked
            when they are read: see `open_layer`.
    """
    try:
        index = json.loads((folder / "index.json").read_bytes())
        (found,) = (item for item in index["manifests"] if item["mediaType"] in (MANIFEST, INDEX))
        while found["mediaType"] == INDEX:  # one image may stand in an index of its own
            (found,) = json.loads(_checked(folder, found["digest"]))["manifests"]
        manifest = json.loads(_checked(folder, found["digest"]))
        config = json.loads(_checked(folder, manifest["config"]["digest"]))
        diff_ids = [_hex(digest) for digest in config["rootfs"]["diff_ids"]]
        layers = [(layer["mediaType"], _hex(layer["digest"])) for layer in manifest["layers"]]
        pairs = zip(layers, diff_ids, strict=True)
        return Layout(
            folder=folder,
            reference=found.get("annotations", {}).get(REFERENCE, ""),
            manifest=found["digest"],
            config_digest=manifest["config"]["digest"],
            config=config,
            layers=tuple((kind, digest, diff_id) for (kind, digest), diff_id in pairs),
        )
    except (OSError, ValueError, KeyError, TypeError) as err:
        raise BuildError(f"{folder} is not an OCI layout with one image: {err}", hint=MAKE_AGAIN) from None


def _hex(digest: str) -> str:
    kind, _, value = digest.partition(":")
    if kind != "sha256" or len(value) != 64 or not set(value) <= set("0123456789abcdef"):
        raise ValueError(f"{digest!r} is no sha256 digest")
    return value


def _checked(folder: Path, digest: str) -> bytes:
    content = (folder / "blobs" / "sha256" / _hex(digest)).read_bytes()
    if hashlib.sha256(content).hexdigest() != _hex(digest):
        raise ValueError(f"the bytes of {digest} are others")
    return content


class _Checked:
    """Reads a stream and hashes what passes."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        chunk = self._stream.read(size)
        self.digest.update(chunk)
        return chunk


@contextlib.contextmanager
def open_layer(layout: Layout, index: int, *, packed: bool = False) -> Iterator[IO[bytes]]:
    """Give the uncompressed tar of a layer; what is not read is read at the end, and its hash checked.

    Args:
        layout: where the layer is.
        index: its place, the lowest is 0.
        packed: check the blob by the digest in the manifest, instead of the tar by its diff_id: less is hashed.

    Raises:
        BuildError: the blob is missing or damaged, is not what it is said to be, or is of an unknown kind.
    """
    kind, digest, diff_id = layout.layers[index]
    packing = kind.rpartition("+")[2] if "+" in kind else "gzip" if kind.endswith(".gzip") else ""
    if packing not in ("", "zstd", "gzip"):
        raise BuildError(f"layer {digest} is of the unknown kind {kind}", hint=MAKE_AGAIN)
    try:
        with layout.blob(digest).open("rb") as blob:
            source = _Checked(cast("IO[bytes]", blob))
            stream = cast("IO[bytes]", source if packed else blob)
            if packing == "zstd":
                stream = cast(
                    "IO[bytes]", zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True)
                )
            elif packing == "gzip":
                stream = cast("IO[bytes]", gzip.GzipFile(fileobj=stream))
            checked = source if packed else _Checked(stream)
            yield stream if packed else cast("IO[bytes]", checked)
            for rest in (stream, source) if packed else (checked,):
                while rest.read(CHUNK):
                    pass
    except (OSError, EOFError, zlib.error, zstandard.ZstdError, tarfile.TarError, ValueError) as err:
        raise BuildError(
            f"layer {digest} of {layout.folder} cannot be read: {err}", hint=MAKE_AGAIN
        ) from None
    if checked.digest.hexdigest() != (digest if packed else diff_id):
        raise BuildError(f"layer {digest} of {layout.folder} is not what it states", hint=MAKE_AGAIN)


def layout_tree(layout: Layout) -> Tree:
    """Return the merged tree of a layout, from the bytes of its layers.

    Raises:
        BuildError: see `open_layer` and `tree.merge`.
    """
    listings: list[list[Entry]] = []
    for index in range(len(layout.layers)):
        with open_layer(layout, index) as stream:
            listings.append(list(list_tar(stream)))
    return merge(listings)


def layout_digest(layout: Layout) -> str:
    """Return the tree digest of a layout, from the bytes of its layers: the check of another builder."""
    return tree_digest(layout_tree(layout), layout.config.get("config") or {})
