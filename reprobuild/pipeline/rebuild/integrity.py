"""Comparison of an output directory's bytes with its stated digests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from reprobuild.image.formats.single_file import KINDS, single_file_name
from reprobuild.image.model import Image
from reprobuild.image.oci.read import read_layout
from reprobuild.infra.untrusted.regular_files import open_plain
from reprobuild_portable.hashing import LARGEST_OWN_HOLE, hash_stream


class Integrity(Struct, frozen=True, kw_only=True):
    """The result of reading an output directory.

    `damage` has the reason by the name of each digest that does not match its bytes, `absent` the names of the digests
    without bytes.
    """

    damage: dict[str, str]
    absent: tuple[str, ...] = ()


def read_integrity(out: Path, image: Image) -> Integrity:
    """Hash an output directory's layout and single files, as streams.

    A damaged layer counts against the tree: the other digests of an image cover only the name of a layer.

    Args:
        out: the directory.
        image: the record in its image.json.

    Raises:
        BuildError: index, manifest or configuration are damaged; see `layout.read_layout`.
    """
    layout = out / image.layout
    stated = [kind for kind in KINDS if getattr(image, kind)]
    damage = dict(_layout_damage(layout, image)) if layout.exists() else {}
    for kind in stated:
        if (out / single_file_name(kind)).exists():
            damage |= _file_damage(out / single_file_name(kind), kind, getattr(image, kind))
    absent = [name for name in ("tree", "config", "manifest") if not layout.exists()]
    absent += [kind for kind in stated if not (out / single_file_name(kind)).exists()]
    return Integrity(damage=damage, absent=tuple(absent))


def _layout_damage(folder: Path, image: Image) -> Iterator[tuple[str, str]]:
    layout = read_layout(folder)  # the digests of manifest and configuration are checked there
    if layout.config_digest != image.config:
        yield (
            "config",
            f"the configuration in {folder} is {layout.config_digest}, and image.json states another",
        )
    broken = [
        why
        for _, digest, _ in layout.layers
        for why in _file_damage(layout.blob(digest), "", digest).values()
    ]
    if broken:
        yield "tree", "; ".join(broken)


def _file_damage(path: Path, name: str, stated: str) -> dict[str, str]:
    """Return {name: reason} if a file does not match its sha256.

    The result is empty if it does match.
    """
    try:
        stream, _ = open_plain(path, links=True)
        with stream:
            digest = hash_stream(stream, LARGEST_OWN_HOLE)
    except OSError as err:
        return {name: f"{path} cannot be read: {err.strerror}"}
    if digest == stated.removeprefix("sha256:"):
        return {}
    return {name: f"{path} is damaged: it has the sha256 {digest}, and {stated} is stated"}
