"""The sizes of the layers of an OCI layout, with their titles."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from reprobuild.errors import BuildError
from reprobuild.image.oci.read import read_layout

_BY = "reprobuild: "  # before the title of a layer, in the history that the native builder writes


class LayerSize(Struct, frozen=True, kw_only=True):
    """A layer: its title in the image's history, and its packed size in bytes."""

    title: str
    size: int


def read_layer_sizes(folder: Path) -> tuple[LayerSize, ...]:
    """Return the layers of a layout, lowest first; empty if there is no layout, or a layer is missing."""
    try:
        layout = read_layout(folder)
        sizes = [layout.blob(digest).stat().st_size for _, digest, _ in layout.layers]
    except (BuildError, OSError):
        return ()
    titles = _read_titles(layout.config.get("history"))
    if len(titles) != len(sizes):
        titles = [f"layer {number}" for number in range(1, len(sizes) + 1)]
    return tuple(LayerSize(title=title, size=size) for title, size in zip(titles, sizes, strict=True))


def _read_titles(history: object) -> list[str]:
    """Return the titles of the layers in an image's history, which may have any form."""
    steps = [step for step in history if isinstance(step, dict)] if isinstance(history, list) else []
    return [
        str(step.get("created_by", "")).removeprefix(_BY) for step in steps if not step.get("empty_layer")
    ]
