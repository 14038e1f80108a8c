"""Whether the bytes of an output directory are those that its digests state."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from reprobuild.image.formats.single_file import KINDS, filename
from reprobuild.image.model import Image
from reprobuild.image.oci.read import read_layout
from reprobuild.infra.tar.entries import CHUNK
from reprobuild.infra.untrusted.regular_files import open_plain


class Integrity(Struct, frozen=True, kw_only=True):
    """What reading an output directory showed.

    `damage` has the reason by the name of each digest whose bytes are others, `absent` the names of the digests of
    which there are no bytes.
    """

    damage: dict[str, str]
    absent: tuple[str, ...] = ()


def read_integrity(out: Path, image: Image) -> Integrity:
    """Hash the layout and the single files of an output directory, as streams.

    A layer that is damaged counts against the tree: no other digest of an image states more than the name of a layer.

    Args:
        out: the directory.
        image: what its image.json states.

    Raises:
        BuildError: index, manifest or configuration are damaged; see `layout.read_layout`.
    """
    layout = out / image.layout
    stated = [kind for kind in KINDS if getattr(image, kind)]
    damage = dict(_of_layout(layout, image)) if layout.exists() else {}
    for kind in stated:
        if (out / filename(kind)).exists():
            damage |= _of_file(out / filename(kind), kind, getattr(image, kind))
    absent = [name for name in ("tree", "config", "manifest") if not layout.exists()]
    absent += [kind for kind in stated if not (out / filename(kind)).exists()]
    return Integrity(damage=damage, absent=tuple(absent))


def _of_layout(folder: Path, image: Image) -> Iterator[tuple[str, str]]:
    found = read_layout(folder)  # the digests of manifest and configuration are checked there
    if found.config_digest != image.config:
        yield (
            "config",
            f"the configuration in {folder} is {found.config_digest}, and image.json states another",
        )
    broken = [
        why for _, digest, _ in found.layers for why in _of_file(found.blob(digest), "", digest).values()
    ]
    if broken:
        yield "tree", "; ".join(broken)


def _of_file(path: Path, name: str, stated: str) -> dict[str, str]:
    """Return {name: reason} where a file cannot be read or has another sha256; else nothing."""
    digest = hashlib.sha256()
    try:
        stream, _ = open_plain(path, links=True)
        with stream:
            while chunk := stream.read(CHUNK):
                digest.update(chunk)
    except OSError as err:
        return {name: f"{path} cannot be read: {err.strerror}"}
    if digest.hexdigest() == stated.removeprefix("sha256:"):
        return {}
    return {name: f"{path} is damaged: it has the sha256 {digest.hexdigest()}, and {stated} is stated"}
