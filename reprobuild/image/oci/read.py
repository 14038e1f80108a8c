"""OCI image layouts, read with every digest checked.

https://github.com/opencontainers/image-spec/blob/main/image-layout.md
"""

from __future__ import annotations

import contextlib
import hashlib
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec import Struct

from reprobuild.errors import BuildError
from reprobuild.image.layering.merge import Tree, merge
from reprobuild.image.layering.packed import MAKE_AGAIN as MAKE_AGAIN
from reprobuild.image.layering.packed import open_packed as open_packed
from reprobuild.image.layering.packed import parse_digest as checked_hex
from reprobuild.image.oci.write import INDEX, MANIFEST, REFERENCE
from reprobuild.image.tree_digest import tree_digest
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.infra.tar.reading import list_tar
from reprobuild.infra.untrusted import json_documents
from reprobuild.infra.untrusted.budget import Allowance
from reprobuild.infra.untrusted.json_documents import parse_image_json
from reprobuild.infra.untrusted.regular_files import read_plain
from reprobuild.infra.untrusted.strings import Digest, Key, MediaType, Text
from reprobuild.recipe.runtime_config import RuntimeConfig, read_runtime_config

LARGEST_JSON = 4 << 20


class Layout(Struct, frozen=True, kw_only=True):
    """A layout that was read.

    `config` is the image configuration, `runtime` its runtime part. `layers` are (media type, digest in hex, diff_id in
    hex), lowest first.
    """

    folder: Path
    reference: str
    manifest: str
    config_digest: str
    config: dict[str, Any]
    runtime: RuntimeConfig
    layers: tuple[tuple[str, str, str], ...]

    def allowance(self) -> Allowance:
        """Return the bound on the contents of its layers.

        It holds for one reading of all of them.

        Raises:
            BuildError: a layer is missing.
        """
        try:
            return Allowance(
                sum(self.blob(digest).stat().st_size for digest in {layer[1] for layer in self.layers})
            )
        except OSError as err:
            raise BuildError(f"{self.folder} lacks a layer: {err}", hint=MAKE_AGAIN) from None

    def blob(self, digest: str) -> Path:
        """Return the file of a digest in hex."""
        return self.folder / "blobs" / "sha256" / digest


def read_layout(folder: Path) -> Layout:
    """Read a layout with one image, from any builder.

    Raises:
        BuildError: it is not a layout, holds several images, or a digest is wrong. The layers are checked
            when they are read: see `open_layer`.
    """
    return parse_layout(folder, lambda name: _read_small(folder / name))


def parse_layout(folder: Path, read: Callable[[str], bytes]) -> Layout:
    """Read a layout through a function that returns its files.

    `read` gets the names of a layout; the files are in a directory, or members of an archive.

    Raises:
        BuildError: see `read_layout`.
    """
    try:
        index = msgspec.json.decode(_check_json(read("index.json"), json_documents.INDEX), type=_Index)
        (descriptor,) = (item for item in index.manifests if item.kind in (MANIFEST, INDEX))
        while descriptor.kind == INDEX:  # one image may be in an index of its own
            inner = _check_json(_read_blob(read, descriptor.digest), json_documents.INDEX)
            (descriptor,) = msgspec.json.decode(inner, type=_Index).manifests
        stated = _check_json(_read_blob(read, descriptor.digest), json_documents.MANIFEST)
        manifest = msgspec.json.decode(stated, type=_Manifest)
        raw = _read_blob(read, manifest.config.digest)
        config = parse_image_json(raw, json_documents.CONFIG)
        diff_ids = [checked_hex(digest) for digest in msgspec.json.decode(raw, type=_Config).rootfs.diff_ids]
        layers = [(layer.kind, checked_hex(layer.digest)) for layer in manifest.layers]
        pairs = zip(layers, diff_ids, strict=True)
        return Layout(
            folder=folder,
            reference=(descriptor.annotations or {}).get(REFERENCE, ""),
            manifest=descriptor.digest,
            config_digest=manifest.config.digest,
            config=config,
            runtime=read_runtime_config(config.get("config")),
            layers=tuple((kind, digest, diff_id) for (kind, digest), diff_id in pairs),
        )
    except (OSError, ValueError, KeyError, RecursionError, msgspec.MsgspecError) as err:
        raise BuildError(f"{folder} is not an OCI layout with one image: {err}", hint=MAKE_AGAIN) from None


class _Descriptor(Struct, rename={"kind": "mediaType"}):
    digest: Digest
    kind: MediaType
    annotations: dict[Key, Text] | None = None


class _Index(Struct):
    manifests: list[_Descriptor]


class _Manifest(Struct):
    config: _Descriptor
    layers: list[_Descriptor]


class _RootFS(Struct):
    diff_ids: list[Digest]


class _Config(Struct):
    rootfs: _RootFS


def _check_json(raw: bytes, fields: json_documents.Fields) -> bytes:
    """Return a document that every reader reads alike."""
    parse_image_json(raw, fields)
    return raw


def _read_small(path: Path) -> bytes:
    """Return the content of a JSON file of bounded size.

    Registries take no larger one.
    """
    facts = path.stat()
    if not stat.S_ISREG(facts.st_mode) or facts.st_size > LARGEST_JSON:
        raise ValueError(f"{path.name} is no file of at most {LARGEST_JSON} bytes")
    return read_plain(path, LARGEST_JSON)


def _read_blob(read: Callable[[str], bytes], digest: str) -> bytes:
    content = read(f"blobs/sha256/{checked_hex(digest)}")
    if hashlib.sha256(content).hexdigest() != checked_hex(digest):
        raise ValueError(f"the bytes of {digest} are others")
    return content


@contextlib.contextmanager
def open_layer(
    layout: Layout, index: int, *, packed: bool = False, allowance: Allowance | None = None
) -> Iterator[IO[bytes]]:
    """Yield the uncompressed tar of a layer, then check it.

    The rest of it is read at the end, and its hash checked.

    Args:
        layout: has the layer.
        index: its place, the lowest is 0.
        packed: check the blob by the digest in the manifest, too.
        allowance: `Layout.allowance`; without it there is no bound.

    Raises:
        BuildError: see `open_packed`.
    """
    kind, digest, diff_id = layout.layers[index]
    origin = f"layer {digest} of {layout.folder}"
    with open_packed(
        layout.blob(digest).open, kind, diff_id, origin, packed=digest if packed else "", allowance=allowance
    ) as stream:
        yield stream


def layout_tree(layout: Layout) -> Tree:
    """Return the merged tree of a layout.

    It is computed from the bytes of the layers.

    Raises:
        BuildError: see `open_layer` and `merge.merge`.
    """
    listings: list[list[TarEntry]] = []
    allowance = layout.allowance()
    for index, (_, digest, _) in enumerate(layout.layers):
        with open_layer(layout, index, allowance=allowance) as stream:
            listings.append(list(list_tar(stream, f"layer {digest} of {layout.folder}", allowance)))
    try:
        return merge(listings)
    except BuildError as err:
        raise BuildError(f"{layout.folder}: {err}", hint=err.hint) from None


def layout_digest(layout: Layout) -> str:
    """Return the tree digest of a layout.

    It is computed from the bytes of the layers, as a check of another builder.
    """
    return tree_digest(layout_tree(layout), layout.runtime)
