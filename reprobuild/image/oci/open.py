"""An image of any form as one value.

It is an OCI layout or the archive of `docker save`, in a directory or a tar, by any builder.

https://github.com/opencontainers/image-spec/blob/main/image-layout.md,
https://github.com/moby/docker-image-spec/blob/main/spec/v1.2.md (section "Combined Image JSON + Filesystem
Changeset Format").
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from reprobuild.errors import BuildError, UsageError
from reprobuild.image.formats.docker_save_files import SAVED_MANIFEST, check_repositories, check_saved
from reprobuild.image.layering.packed import parse_digest
from reprobuild.image.oci.indexes import list_images
from reprobuild.image.oci.members import CUT_SHORT, DAMAGED, DirectoryFiles, ImageFiles, open_archive
from reprobuild.image.oci.write import REFERENCE
from reprobuild.infra.display import display_error
from reprobuild.infra.untrusted import json_documents
from reprobuild.infra.untrusted.strings import MediaType, is_valid
from reprobuild.recipe.runtime_config import RuntimeConfig, read_runtime_config

# Errors of a damaged image.
UNREADABLE = (*DAMAGED, KeyError, TypeError, AttributeError, RecursionError)
LARGEST_JSON = 4 << 20  # registries take no larger manifest; each byte costs up to 36 in memory
_DIGESTS = re.compile(r"[0-9a-f]{64}")
DEEPEST_JSON = 50
GIVE = "give an output directory, an OCI layout, an archive of `docker save` or OCI, a SIF, or an image of the engine"
ONE_IMAGE = "export one image, of one platform, into the file"


class PackedLayer(Struct, frozen=True, kw_only=True):
    """A layer in an image: file, digests and media type.

    `digest` and `diff_id` are hex, of the file and its tar; `digest` is empty if no manifest names one
    (`docker save`).
    """

    file: str
    diff_id: str
    digest: str = ""
    media_type: str = ""


class OciImage(Struct, frozen=True, kw_only=True):
    """An image that can be read.

    `name` is the user's name for it, `form` its detected form. `documents` are its JSON files by role:
    `index`, `manifest`, `config`. `manifest` and `config_digest` are "sha256:" and hex; `manifest` is empty
    if the form has none.
    """

    name: str
    form: str
    files: ImageFiles
    documents: dict[str, Any]
    layers: tuple[PackedLayer, ...]
    config_digest: str
    manifest: str = ""
    reference: str = ""

    @property
    def config(self) -> Mapping[str, Any]:
        """The `config` object of the configuration, with all fields of its builder."""
        return cast("Mapping[str, Any]", self.documents["config"].get("config") or {})

    @property
    def runtime(self) -> RuntimeConfig:
        """The runtime part of the configuration."""
        return read_runtime_config(self.config)


def open_path(path: Path, scratch: Path, name: str = "") -> OciImage:
    """Open a directory or a file.

    Args:
        path: an output directory, a layout, or a tar of either form, compressed or not.
        scratch: an empty directory, to unpack a compressed tar; it is needed as long as the image is.
        name: the name to report; else the path.

    Raises:
        UsageError: it is missing, or holds no image.
        BuildError: it is damaged, or holds several images.
    """
    called = name or str(path)
    if path.is_dir():
        results = (path / "image" / "index.json").is_file()
        files: ImageFiles = DirectoryFiles(path / "image" if results else path)
        form = "output directory" if results else "OCI layout"
    elif path.is_file():
        files, form = open_archive(path, scratch), "OCI archive"
    else:
        raise UsageError(f"there is no image at {called}", hint=GIVE)
    if files.has("index.json"):
        read = functools.partial(read_oci, files, called, form)
    elif files.has("manifest.json"):
        read = functools.partial(_read_docker, files, called)
    else:
        raise UsageError(f"{called} holds no image: neither index.json nor manifest.json", hint=GIVE)
    try:
        image = read()
        for layer in image.layers:
            if not files.has(layer.file):
                raise ValueError(f"the layer {layer.file} is missing")
        return image
    except UNREADABLE as err:
        reason = display_error(err) or type(err).__name__
        raise BuildError(f"{called} is a damaged image: {reason}", hint=CUT_SHORT) from None


def read_oci(files: ImageFiles, name: str, form: str) -> OciImage:
    """Read an OCI layout with one image, from any builder.

    Args:
        files: the files of the layout.
        name: the image's name in messages.
        form: the form to report.

    Raises:
        BuildError: it holds several images.
        Exception: one of `UNREADABLE`; it is damaged, or a digest is wrong. The layers are checked when they are read.
    """
    index = _parse_object(_read_small(files, "index.json"), json_documents.INDEX)
    descriptor = _find_image(files, index, name)
    manifest = _parse_object(_read_blob(files, descriptor["digest"]), json_documents.MANIFEST)
    config = _parse_configuration(_read_blob(files, manifest["config"]["digest"]))
    diff_ids = [parse_digest(digest) for digest in config["rootfs"]["diff_ids"]]
    layers = tuple(
        PackedLayer(
            file=f"blobs/sha256/{parse_digest(layer['digest'])}", digest=parse_digest(layer["digest"]),
            diff_id=diff_id,
            media_type=_parse_media_type(layer.get("mediaType", "")),
        )
        for layer, diff_id in zip(manifest["layers"], diff_ids, strict=True)
    )  # fmt: skip
    if files.has(SAVED_MANIFEST):
        pairs = [(layer.digest, layer.diff_id) for layer in layers]
        check_saved(
            files, _read_small(files, SAVED_MANIFEST), parse_digest(manifest["config"]["digest"]), pairs
        )
    check_repositories(files, [layer.file for layer in layers], lambda name: _read_small(files, name))
    return OciImage(
        name=name, form=form, files=files, layers=layers, manifest=descriptor["digest"],
        documents={"index": index, "manifest": manifest, "config": config},
        config_digest=manifest["config"]["digest"],
        reference=str((descriptor.get("annotations") or {}).get(REFERENCE, "")),
    )  # fmt: skip


def _find_image(files: ImageFiles, index: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the descriptor of the only image with a manifest."""
    descriptors = list_images(
        index,
        lambda digest: files.has(f"blobs/sha256/{parse_digest(digest)}"),
        lambda digest: _parse_object(_read_blob(files, digest), json_documents.INDEX),
    )
    if len({item["digest"] for item in descriptors}) > 1:
        platforms = [item.get("platform") or {} for item in descriptors]
        names = sorted(f"{p.get('os', '?')}/{p.get('architecture', '?')}" for p in platforms)
        raise BuildError(f"{name} holds {len(descriptors)} images ({', '.join(names[:8])})", hint=ONE_IMAGE)
    if not descriptors:
        raise ValueError("its index names no image that is there")
    return descriptors[0]


def _read_docker(files: ImageFiles, name: str) -> OciImage:
    images = _check_depth(
        json_documents.parse_image_json(_read_small(files, "manifest.json"), json_documents.SAVED)
    )
    if len(images) != 1:
        raise BuildError(f"{name} holds {len(images)} images", hint=ONE_IMAGE)
    (image,) = images
    raw = _read_small(files, image["Config"])
    digest = hashlib.sha256(raw).hexdigest()
    if not set(_DIGESTS.findall(image["Config"])) <= {digest}:
        raise ValueError(f"the bytes of {image['Config']} are others")
    config = _parse_configuration(raw)
    diff_ids = [parse_digest(digest) for digest in config["rootfs"]["diff_ids"]]
    pairs = zip(image["Layers"], diff_ids, strict=True)
    layers = tuple(PackedLayer(file=str(file), diff_id=diff_id) for file, diff_id in pairs)
    check_repositories(files, [layer.file for layer in layers], lambda name: _read_small(files, name))
    return OciImage(
        name=name, form="docker archive", files=files, layers=layers,
        documents={"index": images, "config": config},
        config_digest=f"sha256:{digest}",
        reference=str(next(iter(image.get("RepoTags") or ()), "")),
    )  # fmt: skip


def _read_small(files: ImageFiles, name: str) -> bytes:
    with files.open(name) as stream:
        content = stream.read(LARGEST_JSON + 1)
    if len(content) > LARGEST_JSON:
        raise ValueError(f"{name} is larger than {LARGEST_JSON} bytes")
    return content


def _read_blob(files: ImageFiles, digest: str) -> bytes:
    content = _read_small(files, f"blobs/sha256/{parse_digest(digest)}")
    if hashlib.sha256(content).hexdigest() != parse_digest(digest):
        raise ValueError(f"the bytes of {digest} are others")
    return content


def _parse_object(raw: bytes, fields: json_documents.Fields) -> dict[str, Any]:
    value = _check_depth(json_documents.parse_image_json(raw, fields))
    if not isinstance(value, dict):
        raise ValueError("a JSON file of it is no object")
    return value


def _check_depth(value: Any) -> Any:
    """Return a JSON value unless it is nested too deep."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > DEEPEST_JSON:
            raise ValueError(f"its JSON is nested deeper than {DEEPEST_JSON}")
        inner = (v.values() if isinstance(v, dict) else v for v in level if isinstance(v, (dict, list)))
        level = [item for items in inner for item in items]
    return value


def _parse_configuration(raw: bytes) -> dict[str, Any]:
    """Return the image configuration, checked."""
    return check_configuration(_parse_object(raw, json_documents.CONFIG))


def check_configuration(document: dict[str, Any]) -> dict[str, Any]:
    """Return an image configuration unchanged, after checks.

    Raises:
        ValueError: a runtime setting has another type than in the specification, or it is too deep.
    """
    read_runtime_config(_check_depth(document).get("config"))
    return document


def _parse_media_type(value: str) -> str:
    if not is_valid(value, MediaType):
        raise ValueError(f"{value!r:.80} is no media type")
    return value
