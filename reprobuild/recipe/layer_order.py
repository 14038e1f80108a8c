"""The order in which the wheels of an environment are put into an image, and which get a layer of their own."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

# A wheel from this size on is worth a layer that other images share (bytes).
LARGE = 256 << 10
# Docker's overlay driver takes 128 layers, https://docs.docker.com/engine/storage/drivers/overlayfs-driver/;
# containerd has no smaller limit, and some are left for the base, the sources and whoever builds on the image.
MOST = 90


class WheelOrder(Struct, frozen=True):
    """File names of wheels: those with a layer each, then those that share the next one; each sorted.

    Where two wheels bring one file with equal content and unequal modes, the first in this order wins.
    """

    alone: tuple[str, ...]
    together: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Return all in order."""
        return self.alone + self.together


def order_wheels(sizes: Mapping[str, int]) -> WheelOrder:
    """Return the order of wheels.

    Args:
        sizes: {file name: size of the wheel in bytes}.
    """
    large = sorted((name for name in sizes if sizes[name] >= LARGE), key=lambda name: (-sizes[name], name))
    alone = sorted(large[:MOST])
    return WheelOrder(tuple(alone), tuple(sorted(sizes.keys() - set(alone))))
