"""Conversion of another builder's image into our own layout.

Owners, modes, attributes, contents and the division into layers stay as they were built. Times become the
lock's epoch, the configuration gets our own form, and the builder's leftovers are removed (`leftovers`).
Memory does not depend on the size of files: a layer is read, written and compressed in pieces.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import IO

from reprobuild.builders.leftovers import is_left_over, read_clean_config
from reprobuild.errors import BuildError
from reprobuild.image.layering.merge import Tree, merge
from reprobuild.image.layers.blobs import LEVEL, Layer, LayerWriter, keep_layer
from reprobuild.image.model import LAYOUT, Image
from reprobuild.image.oci.foreign import ForeignImage, ForeignLayer
from reprobuild.image.oci.write import image_json, write_layout
from reprobuild.image.tree_digest import tree_digest
from reprobuild.infra.atomic import PREFIX, private_directory
from reprobuild.infra.tar.entries import TarEntry, entry_of
from reprobuild.infra.tar.writing import TarWriter
from reprobuild.infra.untrusted.budget import Allowance
from reprobuild.infra.untrusted.layers import layer_members
from reprobuild.recipe.image_config import format_time
from reprobuild.recipe.runtime_config import RuntimeConfig
from reprobuild.store.store import Store

# A path that would leave the root. Backslashes are ordinary characters here: systemd ships such names.
_UNSAFE = re.compile(r"(^|/)\.{0,2}(/|$)|\0")
UNSAFE_HINT = "no builder writes such a layer by itself; do not use the image"
# Far above any image. It bounds the memory that a crafted archive can take, some kilobytes a path.
MOST_ENTRIES = 5_000_000

Check = Callable[[Tree, RuntimeConfig], None]


def adopt_image(
    foreign: ForeignImage, out: Path, *, builder: str, platform: str, epoch: int, reference: str,
    level: int = LEVEL, check: Check | None = None,
) -> Image:  # fmt: skip
    """Write another builder's image as the OCI layout `out/image`.

    The layout appears only when it is complete.

    Args:
        foreign: the image of the other builder.
        out: the output directory; unfinished layers are in it until the end.
        builder: its name in the registry of builders; selects its leftovers.
        platform: `os/architecture[/variant]`.
        epoch: every time in the image, in seconds since 1970.
        reference: the image's name.
        level: of zstd; it changes the manifest, not the tree.
        check: called with tree and configuration before the image is put in place; may raise.

    Raises:
        BuildError: a layer is damaged or malicious, or the configuration has fields that no recipe sets.
    """
    config = read_clean_config(foreign.config, builder)
    with private_directory(out, f"{PREFIX}adopted.") as scratch:
        store = Store(scratch)
        layers: list[Layer] = []
        tree: Tree = {}
        allowance = Allowance(foreign.packed)
        for number, layer in enumerate(foreign.layers, start=1):
            title = f"{builder}, layer {number}"
            new_layer, listing = _rewrite_layer(layer, title, builder, epoch, store, level, allowance)
            layers.append(new_layer)
            tree = merge([listing], below=tree or None)
        if check is not None:
            check(tree, config)
        image = image_json(layers, config, platform, format_time(epoch))
        written = write_layout(out / LAYOUT, store, layers, image, platform, reference)
    return Image(
        layout=LAYOUT, reference=reference, tree=tree_digest(tree, config), config=written.config,
        manifest=written.manifest, layers=len(layers), builder=builder,
    )  # fmt: skip


def _rewrite_layer(
    layer: ForeignLayer, title: str, builder: str, epoch: int, store: Store, level: int, allowance: Allowance
) -> tuple[Layer, list[TarEntry]]:
    listing: list[TarEntry] = []

    def write(sink: LayerWriter) -> list[TarEntry]:
        writer = TarWriter(sink, epoch)
        with layer.open(allowance) as stream:
            _copy_entries(stream, writer, title, builder, allowance)
        writer.close()
        listing.extend(writer.listing)
        return []  # the listing of an adopted layer is not kept

    return keep_layer(write, title, store, level), listing


def _copy_entries(
    stream: IO[bytes], writer: TarWriter, title: str, builder: str, allowance: Allowance | None = None
) -> None:
    """Copy the entries of a tar without the builder's leftovers.

    Raises:
        BuildError: an entry would leave the root, or there are too many.
        ValueError, tarfile.TarError: the tar is damaged, or a layer cannot hold an entry of this kind.
    """
    for info, content in layer_members(stream, title, allowance):
        entry = entry_of(info)
        _check_paths(entry, title)
        if is_left_over(entry, builder) or entry == TarEntry(path="", type="directory", mode=0o755):
            continue
        writer.add(entry, content if entry.type == "file" else None)
        if len(writer.listing) > MOST_ENTRIES:
            raise BuildError(f"{title} has more than {MOST_ENTRIES} entries", hint=UNSAFE_HINT)


def _check_paths(entry: TarEntry, title: str) -> None:
    paths = [entry.path] if entry.path else []
    paths += [entry.target] if entry.type == "hardlink" else []
    for path in paths:
        if _UNSAFE.search(path):
            raise BuildError(f"{title} holds the unsafe path {path!r}", hint=UNSAFE_HINT)
