"""Probes of interpolation, grid sampling and padding, backwards.

Gradients add up in one place.
"""

from reprobuild_runtime.probes.bench import probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List

    from reprobuild_runtime.probes.bench import Bench


def _resized(b: "Bench", mode: str, **options: "Any") -> "List[Any]":
    (x,) = b.leaves(b.randn(*b.pick((2, 4, 33, 31), (8, 16, 65, 63))))
    size = b.pick((79, 75), (157, 149))
    return b.backward(b.functional.interpolate(x, size=size, mode=mode, align_corners=False, **options), [x])


_INTERPOLATE = "torch.nn.functional.interpolate"


@probe((_INTERPOLATE, " bilinear"))
def interpolate_bilinear(b: "Bench") -> "List[Any]":
    return _resized(b, "bilinear")


@probe((_INTERPOLATE, " bicubic"))
def interpolate_bicubic(b: "Bench") -> "List[Any]":
    return _resized(b, "bicubic")


@probe()
def interpolate_antialias(b: "Bench") -> "List[Any]":
    return _resized(b, "bilinear", antialias=True)


@probe((_INTERPOLATE, " trilinear"))
def interpolate_trilinear(b: "Bench") -> "List[Any]":
    side = b.pick(8, 24)
    (x,) = b.leaves(b.randn(2, 4, side, side, side))
    output = b.functional.interpolate(x, scale_factor=2.3, mode="trilinear", align_corners=False)
    return b.backward(output, [x])


@probe(("torch.nn.functional.grid_sample",))
def grid_sample_2d(b: "Bench") -> "List[Any]":
    side, points = b.pick(16, 64), b.pick(32, 128)
    grid = b.randn(8, points, points, 2, spread=0) * 0.1  # in the middle, so that the gradients add up
    x, grid = b.leaves(b.randn(8, 8, side, side), grid)
    return b.backward(b.functional.grid_sample(x, grid, align_corners=False), [x, grid])


@probe(("torch.nn.functional.grid_sample",))
def grid_sample_3d(b: "Bench") -> "List[Any]":
    points = b.pick(12, 48)
    grid = b.randn(2, points, points, points, 3, spread=0) * 0.1
    x, grid = b.leaves(b.randn(2, 4, 12, 12, 12), grid)
    return b.backward(b.functional.grid_sample(x, grid, align_corners=False), [x, grid])


def _padded(b: "Bench", mode: str, pad: "Any", *shape: int) -> "List[Any]":
    (x,) = b.leaves(b.randn(*shape))
    return b.backward(b.functional.pad(x, pad, mode=mode), [x])


@probe(("torch.nn.ReflectionPad1d",))
def reflection_pad1d(b: "Bench") -> "List[Any]":
    return _padded(b, "reflect", (16, 16), b.pick(4, 32), 16, 32)


@probe(("torch.nn.ReflectionPad2d",))
def reflection_pad2d(b: "Bench") -> "List[Any]":
    return _padded(b, "reflect", (16, 16, 16, 16), b.pick(4, 32), 8, 32, 32)


@probe(("torch.nn.ReplicationPad2d",))
def replication_pad2d(b: "Bench") -> "List[Any]":
    return _padded(b, "replicate", (9, 9, 9, 9), b.pick(4, 32), 8, 32, 32)


@probe(("torch.nn.ReplicationPad3d",))
def replication_pad3d(b: "Bench") -> "List[Any]":
    return _padded(b, "replicate", (5, 5, 5, 5, 5, 5), 2, 4, *b.pick((8, 8, 8), (16, 16, 16)))
