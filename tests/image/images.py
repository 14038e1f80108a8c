"""Small images in every form that `diff` opens."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import zstandard

from reprobuild.image.formats.docker_archive import write_docker_archive
from reprobuild.image.oci.read import read_layout
from reprobuild.image.oci.write import CONFIG, INDEX, LAYER, MANIFEST, encode, name_annotations
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.infra.tar.writing import TarWriter
from reprobuild_portable.hashing import hash_file

Entries = Sequence[tuple[TarEntry, bytes]]
CREATED = "2024-01-02T03:04:05Z"
RUNTIME: Mapping[str, Any] = {"Env": ["PATH=/bin"], "Cmd": ["/bin/sh"]}


def tar_of(entries: Entries, epoch: int = 0) -> bytes:
    stream = io.BytesIO()
    writer = TarWriter(stream, epoch)
    for entry, content in entries:
        writer.add(entry, content if entry.type == "file" else None)
    writer.close()
    return stream.getvalue()


def put(blobs: Path, content: bytes) -> str:
    blobs.mkdir(parents=True, exist_ok=True)
    part = blobs / "part"
    part.write_bytes(content)
    digest = hash_file(part)
    part.rename(blobs / digest)
    return digest


def make_layout(
    folder: Path, *layers: Entries | bytes, config: Mapping[str, Any] = RUNTIME, packing: str = "zstd",
    epoch: int = 0, **more: Any,
) -> Path:  # fmt: skip
    """Write a layout of layers, which are entries or whole tars; `more` goes into the configuration."""
    blobs = folder / "blobs" / "sha256"
    rows, diff_ids = [], []
    for layer in layers:
        tar = layer if isinstance(layer, bytes) else tar_of(layer, epoch)
        diff_ids.append(f"sha256:{put(folder / 'none', tar)}")
        packed = {"zstd": zstandard.compress, "gzip": lambda data: gzip.compress(data, mtime=0)}
        content = packed[packing](tar) if packing in packed else tar
        kind = LAYER if packing == "none" else f"{LAYER}+{packing}"
        rows.append({"mediaType": kind, "digest": f"sha256:{put(blobs, content)}", "size": len(content)})
    image = {
        "os": "linux", "architecture": "amd64", "created": CREATED, "config": dict(config),
        "rootfs": {"type": "layers", "diff_ids": diff_ids}, **more,
    }  # fmt: skip
    finish(folder, encode(image), rows)
    return folder


def finish(folder: Path, image: bytes, rows: Sequence[Mapping[str, Any]]) -> None:
    blobs = folder / "blobs" / "sha256"
    config = {"mediaType": CONFIG, "digest": f"sha256:{put(blobs, image)}", "size": len(image)}
    manifest = encode({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": list(rows)})
    found = {"mediaType": MANIFEST, "digest": f"sha256:{put(blobs, manifest)}", "size": len(manifest)}
    index = {
        "schemaVersion": 2,
        "mediaType": INDEX,
        "manifests": [{**found, "annotations": name_annotations("small:1")}],
    }
    (folder / "index.json").write_bytes(encode(index))
    (folder / "oci-layout").write_bytes(b'{"imageLayoutVersion":"1.0.0"}')


def archived(layout: Path, path: Path, packing: str = "none") -> Path:
    """Write a layout as an OCI archive."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        tar.add(layout, arcname=".")
    return write_packed(stream.getvalue(), path, packing)


def saved(layout: Path, path: Path, packing: str = "none") -> Path:
    """Write a layout as `docker save` of the classic store does."""
    stream = io.BytesIO()
    write_docker_archive(read_layout(layout), stream)
    return write_packed(stream.getvalue(), path, packing)


def write_packed(content: bytes, path: Path, packing: str) -> Path:
    packed = {"none": bytes, "gzip": gzip.compress, "zstd": zstandard.compress}
    path.write_bytes(packed[packing](content))
    return path


def changed_json(layout: Path, name: str, change: Any) -> None:
    """Write a JSON file of a layout again, changed by a function."""
    value = json.loads((layout / name).read_bytes())
    (layout / name).write_bytes(encode(change(value)))


def with_layer(layout: Path, copy: Path, entries: Entries) -> Path:
    """Copy a layout, by hard links, with one layer more; configuration and history stay."""
    found = read_layout(layout)
    blobs = copy / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    for _, digest, _ in found.layers:
        (blobs / digest).unlink(missing_ok=True)
        (blobs / digest).hardlink_to(found.blob(digest))
    tar = tar_of(entries)
    rows = json.loads(found.blob(found.manifest.removeprefix("sha256:")).read_bytes())["layers"]
    content = zstandard.compress(tar)
    rows.append(
        {"mediaType": f"{LAYER}+zstd", "digest": f"sha256:{put(blobs, content)}", "size": len(content)}
    )
    diff_ids = [*found.config["rootfs"]["diff_ids"], f"sha256:{put(copy / 'none', tar)}"]
    rootfs = {**found.config["rootfs"], "diff_ids": diff_ids}
    finish(copy, encode({**found.config, "rootfs": rootfs}), rows)
    return copy
