"""The sizes of an image: its layers, and the files of its packages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from reprobuild.image.oci.layer_sizes import LayerSize
from reprobuild.lock.distributions import environment_wheels
from reprobuild.lock.model import Lock
from reprobuild.report.html.components import Section, format_count
from reprobuild.report.html.strip import Strip, StripPart, draw_strip
from reprobuild.report.units import format_bytes


class SizesView(Struct, frozen=True, kw_only=True):
    """The strips of layers and packages, each empty if there is nothing to draw."""

    strips: Sequence[Strip]


def view_sizes(lock: Lock, layers: Sequence[LayerSize]) -> Section:
    """Return the section on the sizes of layers and packages."""
    strips = [_draw_layers(layers)] if layers else []
    if packages := sorted(_list_packages(lock), key=lambda part: (-part.amount, part.name)):
        total = format_bytes(sum(part.amount for part in packages))
        title = f"Packages: {total} of {format_count(len(packages), 'file')}, packed as they are published"
        strips.append(draw_strip("strip-packages", title, packages, format_bytes))
    return Section(id="sizes", title="Size", note="The sizes are unknown.", view=SizesView(strips=strips))


def _draw_layers(layers: Sequence[LayerSize]) -> Strip:
    total = format_bytes(sum(layer.size for layer in layers))
    title = f"Layers: {total} in {format_count(len(layers), 'layer')}, lowest first"
    parts = [StripPart(name=_shorten_title(layer.title), amount=layer.size) for layer in layers]
    return draw_strip("strip-layers", title, parts, format_bytes)


def _shorten_title(title: str) -> str:
    """Return the name and the version of a wheel's file name; other titles as they are."""
    return " ".join(title.split("-")[:2]) if title.endswith(".whl") else title


def _list_packages(lock: Lock) -> Iterator[StripPart]:
    for wheel in environment_wheels(lock):
        yield StripPart(name=f"{wheel.name} {wheel.version}", amount=wheel.file.size)
    for package in lock.conda:
        yield StripPart(name=f"{package.name} {package.version}", amount=package.file.size)
    for deb in lock.base.packages:
        yield StripPart(name=f"{deb.name} {deb.version}", amount=deb.file.size)
    for layer in lock.base.image.layers if lock.base.image else ():
        yield StripPart(name=f"base image {layer.file.sha256[:12]}", amount=layer.file.size)
