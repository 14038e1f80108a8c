"""Images of other builders, opened for reading.

They are OCI layouts, archives of them, and archives of `docker save`. No content is unpacked to a disk:
members of an archive are found by name and read from it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from msgspec import Struct

from reprobuild.errors import BuildError, UsageError
from reprobuild.image.layering.packed import open_packed
from reprobuild.image.oci.open import OciImage, PackedLayer, open_path
from reprobuild.image.oci.write import LAYER
from reprobuild.infra.untrusted.budget import Allowance

AGAIN = "the builder was interrupted, or wrote another form: build the image again"


class ForeignLayer(Struct, frozen=True):
    """A layer: `open` opens its uncompressed tar.

    It takes the allowance of the image. At the end the tar is checked against the image's statements.
    """

    title: str
    open: Callable[[Allowance], contextlib.AbstractContextManager[IO[bytes]]]


class ForeignImage(Struct, frozen=True):
    """An image of another program: its configuration and layers.

    `config` is the `config` object; the lowest layer is first. `packed` is the number of bytes of its
    files.
    """

    config: dict[str, Any]
    layers: tuple[ForeignLayer, ...]
    packed: int = 0


def read_foreign(path: Path) -> ForeignImage:
    """Return the image at a path.

    Args:
        path: the directory of an OCI layout, a tar of one, or an archive of `docker save`. The directory above is
            private; a compressed tar is unpacked there.

    Raises:
        BuildError: it is not such an image, holds several images, or its parts differ from their statements.
    """
    try:
        image = open_path(path, path.parent)
        packed = sum(image.files.size(file) for file in {layer.file for layer in image.layers})
    except (BuildError, UsageError, OSError) as err:
        raise BuildError(f"{path} is not an image of the builder: {err}", hint=AGAIN) from None
    layers = tuple(_foreign_layer(image, layer) for layer in image.layers)
    return ForeignImage(dict(image.config), layers, packed)


def _foreign_layer(image: OciImage, layer: PackedLayer) -> ForeignLayer:
    title = layer.digest or layer.file

    def open_tar(allowance: Allowance) -> contextlib.AbstractContextManager[IO[bytes]]:
        kind = layer.media_type or LAYER  # `docker save` does not compress
        return open_packed(
            lambda _: image.files.open(layer.file), kind, layer.diff_id, f"layer {title} of {image.name}",
            allowance=allowance,
        )  # fmt: skip

    return ForeignLayer(title, open_tar)
