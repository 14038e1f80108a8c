"""Images made by the tests, and pushed as clients do it: blobs, then manifests, with or without a login."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import requests
import zstandard

OCI = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
DOCKER = "application/vnd.docker.distribution.manifest.v2+json"
LAYERS = {
    (OCI, ""): "application/vnd.oci.image.layer.v1.tar",
    (OCI, "gzip"): "application/vnd.oci.image.layer.v1.tar+gzip",
    (OCI, "zstd"): "application/vnd.oci.image.layer.v1.tar+zstd",
    (DOCKER, "gzip"): "application/vnd.docker.image.rootfs.diff.tar.gzip",
}
CONFIGS = {
    OCI: "application/vnd.oci.image.config.v1+json",
    DOCKER: "application/vnd.docker.container.image.v1+json",
}
Member = tuple[tarfile.TarInfo, bytes]


def sha256(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def file(
    path: str, content: bytes = b"", *, mode: int = 0o644, uid: int = 0, gid: int = 0, capability: bytes = b""
) -> Member:
    """Return a file of a layer; its time is not the epoch of any lock."""
    info = tarfile.TarInfo(path)
    info.size, info.mode, info.uid, info.gid, info.mtime = len(content), mode, uid, gid, 1_234_567_890
    if capability:
        info.pax_headers = {"SCHILY.xattr.security.capability": capability.decode("utf-8", "surrogateescape")}
    return info, content


def folder(path: str, mode: int = 0o755, uid: int = 0, gid: int = 0) -> Member:
    info = tarfile.TarInfo(path)
    info.type, info.mode, info.uid, info.gid = tarfile.DIRTYPE, mode, uid, gid
    return info, b""


def link(path: str, target: str, kind: bytes = tarfile.SYMTYPE, mode: int = 0o777, uid: int = 0) -> Member:
    info = tarfile.TarInfo(path)
    info.type, info.linkname, info.mode, info.uid, info.gid = kind, target, mode, uid, uid
    return info, b""


def layer(members: Iterable[Member]) -> bytes:
    """Return the tar of a layer."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", encoding="utf-8", errors="surrogateescape") as tar:
        for info, content in members:
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def pack(tar: bytes, how: str) -> bytes:
    if how == "gzip":
        return gzip.compress(tar, compresslevel=1, mtime=0)
    return zstandard.ZstdCompressor(level=1).compress(tar) if how == "zstd" else tar


@dataclass
class Image:
    """An image that was made: its manifest, the media type of it, and every blob by digest."""

    manifest: bytes
    kind: str
    blobs: dict[str, bytes] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        return sha256(self.manifest)

    @property
    def platform(self) -> dict[str, str]:
        config = json.loads(self.blobs[json.loads(self.manifest)["config"]["digest"]])
        return {"os": config["os"], "architecture": config["architecture"]}


def make_image(
    layers: Sequence[tuple[bytes, str]], *, kind: str = OCI, architecture: str = "amd64",
    variables: Sequence[str] = (), **runtime: Any,
) -> Image:  # fmt: skip
    """Return an image of layers, each a tar and how it is packed; `runtime` goes into its configuration."""
    packed = [pack(tar, how) for tar, how in layers]
    config = json.dumps(
        {
            "os": "linux", "architecture": architecture, "config": {"Env": list(variables), **runtime},
            "rootfs": {"type": "layers", "diff_ids": [sha256(tar) for tar, _ in layers]},
        }
    ).encode()  # fmt: skip
    described = [
        {"mediaType": LAYERS[kind, how], "digest": sha256(blob), "size": len(blob)}
        for blob, (_, how) in zip(packed, layers, strict=True)
    ]
    manifest = {
        "schemaVersion": 2, "mediaType": kind, "layers": described,
        "config": {"mediaType": CONFIGS[kind], "digest": sha256(config), "size": len(config)},
    }  # fmt: skip
    blobs = {sha256(blob): blob for blob in (config, *packed)}
    return Image(manifest=json.dumps(manifest).encode(), kind=kind, blobs=blobs)


def make_index(images: Sequence[Image]) -> bytes:
    """Return an index of images, with an attestation as builders add them."""
    entries: list[dict[str, Any]] = [
        {
            "mediaType": image.kind,
            "digest": image.digest,
            "size": len(image.manifest),
            "platform": image.platform,
        }
        for image in images
    ]
    unknown = {"os": "unknown", "architecture": "unknown"}
    attestation = {**entries[0], "platform": unknown}
    return json.dumps(
        {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [attestation, *entries]}
    ).encode()


class Pusher:
    """A client of a registry that pushes and deletes."""

    def __init__(self, host: str, login: tuple[str, str] | None = None) -> None:
        self.url = f"http://{host}/v2"
        self.session = requests.Session()
        self.session.auth = login
        self.session.trust_env = False

    def push(self, image: Image, name: str, tag: str = "") -> str:
        """Push an image, and return its digest."""
        for digest, blob in image.blobs.items():
            begun = self._ask("POST", f"{self.url}/{name}/blobs/uploads/")
            place = begun.headers["Location"]
            self._ask("PUT", f"{place}{'&' if '?' in place else '?'}digest={digest}", data=blob)
        self.push_manifest(image.manifest, image.kind, name, tag or image.digest)
        return image.digest

    def push_manifest(self, content: bytes, kind: str, name: str, wanted: str) -> None:
        self._ask(
            "PUT", f"{self.url}/{name}/manifests/{wanted}", data=content, headers={"Content-Type": kind}
        )

    def delete(self, image: Image, name: str) -> None:
        """Delete the manifest, with its tags, and every blob."""
        self._ask("DELETE", f"{self.url}/{name}/manifests/{image.digest}")
        for digest in image.blobs:
            self._ask("DELETE", f"{self.url}/{name}/blobs/{digest}")

    def _ask(self, method: str, url: str, **more: Any) -> requests.Response:
        answer = self.session.request(method, url, timeout=60, **more)
        assert answer.ok, (method, url, answer.status_code, answer.text)
        return answer
