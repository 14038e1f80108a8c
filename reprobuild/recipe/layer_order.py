"""The order of wheels in an image, and their layers."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

# A wheel from this size on is worth a layer that other images share (bytes).
LARGE = 256 << 10
# Docker's overlay driver takes 128 layers, https://docs.docker.com/engine/storage/drivers/overlayfs-driver/; containerd
# has no smaller limit. Some are left for the base, the sources and images built on the image.
MOST = 90


class WheelOrder(Struct, frozen=True):
    """File names of wheels by layer, each group sorted.

    The first have a layer each; the others share the next one.

    If two wheels have one file with equal content and different modes, the first in this order wins.
    """

    alone: tuple[str, ...]
    together: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """All names in order."""
        return self.alone + self.together


def order_wheels(sizes: Mapping[str, int]) -> WheelOrder:
    """Return the order of wheels.

    Args:
        sizes: {file name: size of the wheel in bytes}.
    """
    large = sorted((name for name in sizes if sizes[name] >= LARGE), key=lambda name: (-sizes[name], name))
    alone = sorted(large[:MOST])
    return WheelOrder(tuple(alone), tuple(sorted(sizes.keys() - set(alone))))
