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

AGAIN = "the builder was interrupted, or wrote another form: build the image again"


class ForeignLayer(Struct, frozen=True):
    """A layer: `open` opens its uncompressed tar.

    At the end it is checked against the image's statements.
    """

    title: str
    open: Callable[[], contextlib.AbstractContextManager[IO[bytes]]]


class ForeignImage(Struct, frozen=True):
    """An image of another program: its configuration and layers.

    `config` is the `config` object; the lowest layer is first.
    """

    config: dict[str, Any]
    layers: tuple[ForeignLayer, ...]


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
    except (BuildError, UsageError) as err:
        raise BuildError(f"{path} is not an image of the builder: {err}", hint=AGAIN) from None
    return ForeignImage(dict(image.config), tuple(_foreign_layer(image, layer) for layer in image.layers))


def _foreign_layer(image: OciImage, layer: PackedLayer) -> ForeignLayer:
    title = layer.digest or layer.file

    def open_tar() -> contextlib.AbstractContextManager[IO[bytes]]:
        kind = layer.media_type or LAYER  # `docker save` does not compress
        return open_packed(
            lambda _: image.files.open(layer.file), kind, layer.diff_id, f"layer {title} of {image.name}"
        )

    return ForeignLayer(title, open_tar)
