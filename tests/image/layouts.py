"""Small OCI layouts as other builders write them: layers of any split, order and compression."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import zstandard

from reprobuild.image.model import LAYOUT, Image
from reprobuild.image.oci.read import Layout, read_layout
from reprobuild.image.oci.write import CONFIG, LAYER, MANIFEST, encode
from reprobuild.infra.tar.entries import TarEntry
from tests.image.made import make_tar

Packing = Literal["", "gzip", "zstd"]
Members = Sequence[tuple[TarEntry, bytes]]

RUNTIME: dict[str, Any] = {
    "Env": ["PATH=/usr/bin:/bin", "A=it's"],
    "Entrypoint": ["/usr/bin/python3.11", "-I", "entry point.py"],
    "Cmd": ["/bin/bash"],
    "WorkingDir": "/src/a b",
    "Labels": {"org.opencontainers.image.created": "2023-11-14T22:13:20Z", "org.reprobuild.lock": "sha256:1"},
}


def write_image(
    folder: Path, layers: Sequence[Members | bytes], config: Mapping[str, Any] = RUNTIME, *,
    packing: Packing = "zstd", **more: Any,
) -> Layout:  # fmt: skip
    """Write a layout into `folder`; `more` goes into the image configuration."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def keep(media_type: str, content: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        (blobs / digest).write_bytes(content)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    tars = [layer if isinstance(layer, bytes) else make_tar(layer) for layer in layers]
    packed = [_packed(tar, packing) for tar in tars]
    kind = f"{LAYER}+{packing}" if packing else LAYER
    image = {
        "os": "linux", "architecture": "amd64", "created": "2023-11-14T22:13:20Z", "config": dict(config),
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(tar).hexdigest()}" for tar in tars]},
        **more,
    }  # fmt: skip
    manifest = {
        "schemaVersion": 2, "mediaType": MANIFEST, "config": keep(CONFIG, encode(image)),
        "layers": [keep(kind, blob) for blob in packed],
    }  # fmt: skip
    index = {"schemaVersion": 2, "manifests": [keep(MANIFEST, encode(manifest))]}
    (folder / "index.json").write_text(json.dumps(index))
    return read_layout(folder)


def _packed(tar: bytes, packing: Packing) -> bytes:
    if packing == "zstd":
        return zstandard.ZstdCompressor().compress(tar)
    return gzip.compress(tar) if packing == "gzip" else tar


def image_of(layout: Layout) -> Image:
    """Return the record of a layout; no digest of the tree is needed here."""
    return Image(
        layout=LAYOUT, reference=layout.reference, tree="", config=layout.config_digest,
        manifest=layout.manifest, layers=len(layout.layers),
    )  # fmt: skip
