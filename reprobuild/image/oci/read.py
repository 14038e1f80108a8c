"""OCI image layouts, read with every digest checked.

https://github.com/opencontainers/image-spec/blob/main/image-layout.md
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from msgspec import Struct

from reprobuild.errors import BuildError
from reprobuild.image.layering.merge import Tree, merge
from reprobuild.image.layering.packed import MAKE_AGAIN as MAKE_AGAIN
from reprobuild.image.layering.packed import open_packed as open_packed
from reprobuild.image.model import ImageDigests
from reprobuild.image.oci.members import DirectoryFiles
from reprobuild.image.oci.open import UNREADABLE, read_oci
from reprobuild.image.tree_digest import tree_digest
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.infra.tar.reading import list_tar
from reprobuild.infra.untrusted.budget import Allowance
from reprobuild.infra.untrusted.regular_files import open_plain, open_within
from reprobuild.recipe.runtime_config import RuntimeConfig
from reprobuild_portable.hashing import LARGEST_OWN_HOLE, hash_stream


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

    @property
    def digests(self) -> ImageDigests:
        """The digests by which engines know it."""
        return ImageDigests(config=self.config_digest, manifest=self.manifest)

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

    @property
    def blobs(self) -> tuple[str, ...]:
        """The digests in hex of its files: manifest, configuration and layers, without repeats."""
        documents = (digest.removeprefix("sha256:") for digest in (self.manifest, self.config_digest))
        return tuple(dict.fromkeys((*documents, *(layer[1] for layer in self.layers))))

    def blob(self, digest: str) -> Path:
        """Return the file of a digest in hex."""
        return self.folder / "blobs" / "sha256" / digest


def read_layout(folder: Path) -> Layout:
    """Read a layout with one image, from any builder.

    Raises:
        BuildError: it is not a layout, holds several images, or a digest is wrong. The layers are checked
            when they are read: see `open_layer`.
    """
    try:
        image = read_oci(DirectoryFiles(folder), str(folder), "OCI layout")
    except (*UNREADABLE, BuildError) as err:
        reason = str(err) or type(err).__name__
        raise BuildError(f"{folder} is not an OCI layout with one image: {reason}", hint=MAKE_AGAIN) from None
    return Layout(
        folder=folder,
        reference=image.reference,
        manifest=image.manifest,
        config_digest=image.config_digest,
        config=image.documents["config"],
        runtime=image.runtime,
        layers=tuple((layer.media_type, layer.digest, layer.diff_id) for layer in image.layers),
    )


def layout_size(folder: Path) -> int:
    """Return the size of a layout's packed layers in bytes, or 0 if it cannot be read."""
    try:
        layout = read_layout(folder)
        return sum(layout.blob(digest).stat().st_size for digest in {layer[1] for layer in layout.layers})
    except (BuildError, OSError):
        return 0


@contextlib.contextmanager
def open_blob(layout: Layout, digest: str) -> Iterator[tuple[IO[bytes], int]]:
    """Yield a packed file of a layout and its size, after a check of its hash.

    No link below the layout is followed.

    Args:
        layout: has the file.
        digest: in hex.

    Raises:
        BuildError: the file is missing, is not a regular file, or has other bytes.
    """
    origin = f"blob {digest} of {layout.folder}"
    try:
        stream, size = open_within(layout.folder, f"blobs/sha256/{digest}")
    except OSError as err:
        raise BuildError(f"{origin} cannot be read: {err.strerror}", hint=MAKE_AGAIN) from None
    with stream:
        try:
            actual = hash_stream(stream, LARGEST_OWN_HOLE)
        except OSError as err:
            raise BuildError(f"{origin} cannot be read: {err.strerror}", hint=MAKE_AGAIN) from None
        if actual != digest:
            raise BuildError(f"{origin} is not what it states", hint=MAKE_AGAIN)
        stream.seek(0)
        yield stream, size


def check_layers(layout: Layout) -> None:
    """Compare each packed layer of a layout with its digest.

    Raises:
        BuildError: a layer is missing or damaged.
    """
    for digest in dict.fromkeys(layer[1] for layer in layout.layers):
        with open_blob(layout, digest):
            pass


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
        allowance: `Layout.allowance`; without it the layer has all of it.

    Raises:
        BuildError: see `open_packed`.
    """
    kind, digest, diff_id = layout.layers[index]
    origin = f"layer {digest} of {layout.folder}"
    with open_packed(
        lambda _: open_plain(layout.blob(digest), links=True)[0],
        kind,
        diff_id,
        origin,
        packed=digest if packed else "",
        allowance=allowance or layout.allowance(),
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
