"""Images of other builders, opened for reading.

They are OCI layouts, archives of them, and archives of `docker save`. No content is unpacked to a disk:
members of an archive are found by name and read from it.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from msgspec import Struct

from reprobuild.errors import BuildError
from reprobuild.image.formats.docker_save_files import SAVED_MANIFEST, check_saved
from reprobuild.image.layering.packed import open_packed, parse_digest
from reprobuild.image.oci.members import DAMAGED, TarMembers
from reprobuild.image.oci.read import Layout, parse_layout, read_layout
from reprobuild.image.oci.write import LAYER
from reprobuild.infra.untrusted.json_documents import CONFIG, SAVED, parse_image_json

AGAIN = "the builder was interrupted, or wrote another form: build the image again"
# JSON files of an image have some kilobytes; a larger file is not one.
LARGEST_JSON = 16 << 20


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


@contextlib.contextmanager
def open_foreign(path: Path) -> Iterator[ForeignImage]:
    """Yield the image at a path.

    An archive stays open meanwhile.

    Args:
        path: the directory of an OCI layout, an uncompressed tar of one, or an archive of `docker save`.

    Raises:
        BuildError: it is none of these, holds several images, or its parts differ from their statements.
    """
    if path.is_dir():
        layout = read_layout(path)

        def open_file(digest: str) -> Callable[[str], Any]:
            return layout.blob(digest).open

        yield _assemble_image(layout.config, layout.layers, open_file, str(path))
        return
    try:
        members = _Members(path)
    except DAMAGED as err:
        raise BuildError(f"{path} is not the archive of an image: {err}", hint=AGAIN) from None
    yield _read_archive(members)


def _read_archive(members: _Members) -> ForeignImage:
    if members.has("index.json"):
        layout = parse_layout(members.path, members.read)
        if members.has(SAVED_MANIFEST):
            _check_saved(members, layout)

        def open_blob(digest: str) -> Callable[[str], Any]:
            return lambda mode: members.open(f"blobs/sha256/{digest}")

        return _assemble_image(layout.config, layout.layers, open_blob, str(members.path))
    return _read_docker_archive(members)


def _check_saved(members: _Members, layout: Layout) -> None:
    pairs = [(digest, diff_id) for _, digest, diff_id in layout.layers]
    try:
        check_saved(members, members.read(SAVED_MANIFEST), parse_digest(layout.config_digest), pairs)
    except (*DAMAGED, TypeError) as err:
        raise BuildError(f"{members.path} is not the archive of one image: {err}", hint=AGAIN) from None


def _read_docker_archive(members: _Members) -> ForeignImage:
    """Return the image in a `docker save` archive.

    https://github.com/moby/docker-image-spec, "Combined Image JSON".
    """
    try:
        (image,) = parse_image_json(members.read("manifest.json"), SAVED)
        text = members.read(image["Config"])
        stated = re.search("[0-9a-f]{64}", image["Config"])
        if stated and hashlib.sha256(text).hexdigest() != stated[0]:
            raise ValueError(f"the bytes of {image['Config']} are others")
        config = parse_image_json(text, CONFIG)
        diff_ids = [parse_digest(digest) for digest in config["rootfs"]["diff_ids"]]
        layers = [
            (LAYER, str(name), diff_id) for name, diff_id in zip(image["Layers"], diff_ids, strict=True)
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as err:
        raise BuildError(f"{members.path} is not the archive of one image: {err}", hint=AGAIN) from None

    def open_member(name: str) -> Callable[[str], Any]:
        return lambda mode: members.open(name)

    return _assemble_image(config, tuple(layers), open_member, str(members.path))


def _assemble_image(
    config: dict[str, Any],
    layers: tuple[tuple[str, str, str], ...],
    opener: Callable[[str], Callable[[str], Any]],
    origin: str,
) -> ForeignImage:
    def opened(
        kind: str, name: str, diff_id: str
    ) -> Callable[[], contextlib.AbstractContextManager[IO[bytes]]]:
        return lambda: open_packed(opener(name), kind, diff_id, f"layer {name} of {origin}")

    inner = config.get("config") or {}
    if not isinstance(inner, dict):
        raise BuildError(f"{origin} is not an image: its configuration is no object", hint=AGAIN)
    return ForeignImage(inner, tuple(ForeignLayer(layer[1], opened(*layer)) for layer in layers))


class _Members(TarMembers):
    """The files of a tar by name."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path

    def read(self, name: str) -> bytes:
        """Return the bytes of a small file.

        Raises:
            OSError: there is no file with this name.
            ValueError: it is not small.
        """
        with self.open(name) as stream:
            content = stream.read(LARGEST_JSON + 1)
        if len(content) > LARGEST_JSON:
            raise ValueError(f"{name} has more than {LARGEST_JSON >> 20} MiB")
        return content
