"""The value of a built image, as in image.json."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from msgspec import Struct

from reprobuild.infra.untrusted.strings import (
    Digest,
    Label,
    OptionalDigest,
    OptionalSha256,
    Reference,
    Size,
)

LAYOUT: Final = "image"  # the only name: what is checked is what the engines load
NATIVE = "native"  # the builder that is part of this program


class ImageDigests(NamedTuple):
    """The digests ("sha256:...") of an image. Each engine knows it by one of them."""

    config: str
    manifest: str


class Image(Struct, frozen=True, kw_only=True):
    """A built image.

    `layout` is the name of the layout's directory in the output directory; digests are "sha256:...". `tree`
    covers everything that a program in it can see (see `image.tree_digest`), and is the same for every
    builder; `manifest` depends on the versions of reprobuild and zstd, too. `builder` is its name in the
    registry, `lock` the digest of the sealed lock, in hex. `sif` and `sqsh` are the digests of `image.sif`
    and `image.sqsh` beside the layout, empty if they were not requested.
    """

    layout: Literal["image"]
    reference: Reference
    tree: Digest
    config: Digest
    manifest: Digest
    layers: Size
    lock: OptionalSha256 = ""
    sif: OptionalDigest = ""
    sqsh: OptionalDigest = ""
    builder: Label = NATIVE

    @property
    def digests(self) -> ImageDigests:
        """The digests by which engines know it."""
        return ImageDigests(config=self.config, manifest=self.manifest)
