"""OCI image layouts, written from layers of the store.

https://github.com/opencontainers/image-spec/blob/main/image-layout.md
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from reprobuild.image.layers.blobs import Layer
from reprobuild.infra.atomic import atomic_directory
from reprobuild.infra.untrusted.write_below import link_below
from reprobuild.recipe.runtime_config import RuntimeConfig
from reprobuild.store.store import Store

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
REFERENCE = "org.opencontainers.image.ref.name"


class WrittenLayout(Struct, frozen=True, kw_only=True):
    """The digests ("sha256:" and hex) of a written layout."""

    config: str
    manifest: str


def encode(value: Any) -> bytes:
    """Return canonical JSON with sorted keys and without spaces.

    Every file of a layout has this form.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


LAYOUT_VERSION = encode({"imageLayoutVersion": "1.0.0"})  # of the file `oci-layout`


def image_json(layers: Sequence[Layer], config: RuntimeConfig, platform: str, created: str) -> bytes:
    """Return the image configuration.

    It has `config`, the platform, and one line of history for each layer.
    """
    history = [{"created": created, "created_by": f"reprobuild: {layer.title}"} for layer in layers]
    return encode(
        {
            **platform_of(platform),
            "created": created,
            "config": config.document(),
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.diff_id}" for layer in layers]},
            "history": history,
        }
    )


def write_layout(
    folder: Path, store: Store, layers: Sequence[Layer], image: bytes, platform: str, reference: str
) -> WrittenLayout:
    """Write a layout atomically, replacing a former one.

    Args:
        folder: its path; the parent directory is made.
        layers: in the store; each blob is a hard link, or a copy on another file system.
        image: the result of `image_json`.
        platform: `os/architecture[/variant]`.
        reference: the name of the image.

    Raises:
        FetchError: a blob of the store is missing or damaged.
    """
    with atomic_directory(folder) as part:
        blobs = part / "blobs" / "sha256"
        blobs.mkdir(parents=True)
        descriptors = []
        for layer in layers:
            _link_blob(store.verified(layer.blob, f"the layer `{layer.title}`"), blobs, layer.blob)
            descriptors.append(_descriptor(f"{LAYER}+zstd", layer.blob, layer.size))
        config = _write_blob(blobs, CONFIG, image)
        text = encode({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": descriptors})
        manifest = _write_blob(blobs, MANIFEST, text)
        _write_index(part, manifest, platform, reference)
    return WrittenLayout(config=config["digest"], manifest=manifest["digest"])


def link_layout(
    folder: Path, store: Store, manifest: str, blobs: Sequence[str], platform: str, reference: str
) -> None:
    """Write the layout of a foreign image atomically.

    A former one is replaced.

    Args:
        folder: its path; the parent directory is made.
        store: holds everything.
        manifest: its sha256 (hex).
        blobs: the sha256 (hex) of configuration and layers.
        platform: `os/architecture[/variant]`.
        reference: the name of the image.

    Raises:
        FetchError: a blob of the store is missing or damaged.
    """
    with atomic_directory(folder) as part:
        place = part / "blobs" / "sha256"
        place.mkdir(parents=True)
        for blob in (manifest, *blobs):
            _link_blob(store.verified(blob, "a part of the image"), place, blob)
        size = (place / manifest).stat().st_size
        _write_index(part, _descriptor(MANIFEST, manifest, size), platform, reference)


def _write_index(part: Path, manifest: dict[str, Any], platform: str, reference: str) -> None:
    """Write the files that make a blob directory a layout.

    They name its image.
    """
    (part / "index.json").write_bytes(index_json(manifest, platform_of(platform), reference))
    (part / "oci-layout").write_bytes(LAYOUT_VERSION)


def index_json(manifest: dict[str, Any], platform: dict[str, str], reference: str) -> bytes:
    """Return the index of a layout with one named image.

    The image has no other name in it.
    """
    named = {**manifest, "platform": platform, "annotations": name_annotations(reference)}
    return encode({"schemaVersion": 2, "mediaType": INDEX, "manifests": [named]})


def name_annotations(reference: str) -> dict[str, str]:
    """Return the annotations that identify an image in a layout.

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


def platform_of(platform: str) -> dict[str, str]:
    """Return `os/architecture[/variant]` in a descriptor's form."""
    return dict(zip(("os", "architecture", "variant"), platform.split("/"), strict=False))


def _descriptor(media_type: str, digest: str, size: int) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": size}


def _write_blob(blobs: Path, media_type: str, content: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    path = blobs / digest
    path.write_bytes(content)
    path.chmod(0o444)
    return _descriptor(media_type, digest, len(content))


def _link_blob(source: Path, folder: Path, name: str) -> None:
    with contextlib.suppress(FileExistsError):  # two layers with the same bytes
        link_below(source, folder, name)
