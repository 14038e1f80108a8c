"""OCI image layouts, read back with every digest checked.

https://github.com/opencontainers/image-spec/blob/main/image-layout.md
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import stat
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, cast

import msgspec
import zstandard
from msgspec import Struct

from reprobuild.archive import CHUNK, Entry, list_tar
from reprobuild.errors import BuildError
from reprobuild.guard import tars
from reprobuild.image.oci import INDEX, MANIFEST, REFERENCE
from reprobuild.image.tree import Tree, merge, tree_digest

LARGEST_JSON = 4 << 20
MAKE_AGAIN = "the layout is damaged: make it again with `reprobuild build`"


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


def read_layout(folder: Path) -> Layout:
    """Read a layout with one image, from any builder.

    Raises:
        BuildError: it is not a layout, holds several images, or a digest is wrong. The layers are checked
            when they are read: see `open_layer`.
    """
    return parse_layout(folder, lambda name: _small(folder / name))


def parse_layout(folder: Path, read: Callable[[str], bytes]) -> Layout:
    """Read what `read` gives for the names of a layout: the files of a folder, or the members of an archive.

    Raises:
        BuildError: see `read_layout`.
    """
    try:
        index = msgspec.json.decode(read("index.json"), type=_Index)
        (found,) = (item for item in index.manifests if item.kind in (MANIFEST, INDEX))
        while found.kind == INDEX:  # one image may stand in an index of its own
            (found,) = msgspec.json.decode(_checked(read, found.digest), type=_Index).manifests
        manifest = msgspec.json.decode(_checked(read, found.digest), type=_Manifest)
        raw = _checked(read, manifest.config.digest)
        diff_ids = [checked_hex(digest) for digest in msgspec.json.decode(raw, type=_Config).rootfs.diff_ids]
        layers = [(layer.kind, checked_hex(layer.digest)) for layer in manifest.layers]
        pairs = zip(layers, diff_ids, strict=True)
        return Layout(
            folder=folder,
            reference=(found.annotations or {}).get(REFERENCE, ""),
            manifest=found.digest,
            config_digest=manifest.config.digest,
            config=msgspec.json.decode(raw),
            layers=tuple((kind, digest, diff_id) for (kind, digest), diff_id in pairs),
        )
    except (OSError, ValueError, KeyError, RecursionError, msgspec.MsgspecError) as err:
        raise BuildError(f"{folder} is not an OCI layout with one image: {err}", hint=MAKE_AGAIN) from None


class _Descriptor(Struct, rename={"kind": "mediaType"}):
    digest: str
    kind: str
    annotations: dict[str, str] | None = None


class _Index(Struct):
    manifests: list[_Descriptor]


class _Manifest(Struct):
    config: _Descriptor
    layers: list[_Descriptor]


class _RootFS(Struct):
    diff_ids: list[str]


class _Runtime(Struct, rename="pascal"):
    """What `tree.runtime_part` reads."""

    cmd: list[str] | None = None
    entrypoint: list[str] | None = None
    env: list[str] | None = None
    exposed_ports: dict[str, Any] | None = None
    stop_signal: str | None = None
    user: str | None = None
    volumes: dict[str, Any] | None = None
    working_dir: str | None = None


class _Config(Struct):
    rootfs: _RootFS
    config: _Runtime | None = None


def _small(path: Path) -> bytes:
    """Return the content of a JSON file; registries take none that is larger."""
    seen = path.stat()
    if not stat.S_ISREG(seen.st_mode) or seen.st_size > LARGEST_JSON:
        raise ValueError(f"{path.name} is no file of at most {LARGEST_JSON} bytes")
    return path.read_bytes()


def checked_hex(digest: str) -> str:
    """Return the hex digits of a sha256 digest.

    Raises:
        ValueError: it is none.
    """
    kind, _, value = digest.partition(":")
    if kind != "sha256" or len(value) != 64 or not set(value) <= set("0123456789abcdef"):
        raise ValueError(f"{digest!r} is no sha256 digest")
    return value


def _checked(read: Callable[[str], bytes], digest: str) -> bytes:
    content = read(f"blobs/sha256/{checked_hex(digest)}")
    if hashlib.sha256(content).hexdigest() != checked_hex(digest):
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
        BuildError: see `open_packed`.
    """
    kind, digest, diff_id = layout.layers[index]
    origin = f"layer {digest} of {layout.folder}"
    with open_packed(
        layout.blob(digest).open, kind, diff_id, origin, packed=digest if packed else ""
    ) as stream:
        yield stream


@contextlib.contextmanager
def open_packed(
    open_blob: Callable[[str], Any], kind: str, diff_id: str, origin: str, *, packed: str = ""
) -> Iterator[IO[bytes]]:
    """Give what a blob holds, uncompressed; what is not read is read at the end, and its hash checked.

    Args:
        open_blob: takes the mode "rb" and gives a context manager of the packed stream.
        kind: the media type; its end says how the blob is packed.
        diff_id: the sha256 (hex) of the uncompressed bytes; empty where nothing is stated.
        origin: what the user knows the blob by.
        packed: the sha256 (hex) of the packed bytes, to be checked instead.

    Raises:
        BuildError: the blob is missing or damaged, is not what its diff_id says, or is of an unknown kind.
    """
    packing = kind.rpartition("+")[2] if "+" in kind else "gzip" if kind.endswith(".gzip") else ""
    if packing not in ("", "zstd", "gzip"):
        raise BuildError(f"{origin} is of the unknown kind {kind}", hint=MAKE_AGAIN)
    try:
        with open_blob("rb") as blob:
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
    except (OSError, zlib.error, zstandard.ZstdError, *tars.UNREADABLE) as err:
        if isinstance(err, OSError) and err.errno == errno.ENOSPC:  # of what is written with what was read
            raise
        raise BuildError(f"{origin} cannot be read: {err}", hint=MAKE_AGAIN) from None
    stated = packed or diff_id
    if stated and checked.digest.hexdigest() != stated:
        raise BuildError(f"{origin} is not what it states", hint=MAKE_AGAIN)


def layout_tree(layout: Layout) -> Tree:
    """Return the merged tree of a layout, from the bytes of its layers.

    Raises:
        BuildError: see `open_layer` and `tree.merge`.
    """
    listings: list[list[Entry]] = []
    for index, (_, digest, _) in enumerate(layout.layers):
        with open_layer(layout, index) as stream:
            listings.append(list(list_tar(stream, f"layer {digest} of {layout.folder}")))
    try:
        return merge(listings)
    except BuildError as err:
        raise BuildError(f"{layout.folder}: {err}", hint=err.hint) from None


def layout_digest(layout: Layout) -> str:
    """Return the tree digest of a layout, from the bytes of its layers: the check of another builder."""
    return tree_digest(layout_tree(layout), layout.config.get("config") or {})
