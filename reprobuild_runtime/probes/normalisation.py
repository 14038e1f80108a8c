"""Probes of normalising layers, in training."""

from reprobuild_runtime.probes.bench import probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List

    from reprobuild_runtime.probes.bench import Bench


@probe()
def layer_norm(b: "Bench") -> "List[Any]":
    width = b.pick(384, 1024)
    x, w, bias = b.leaves(b.randn(b.pick(128, 2048), width, spread=2), b.randn(width), b.randn(width))
    return b.backward(b.functional.layer_norm(x, (width,), w, bias), [x, w, bias])


@probe()
def rms_norm(b: "Bench") -> "List[Any]":
    function = b.need(getattr(b.functional, "rms_norm", None), "this torch has no rms_norm")
    x, w = b.leaves(b.randn(b.pick(128, 4096), 384, spread=2), b.randn(384))
    return b.backward(function(x, (384,), w), [x, w])


@probe()
def batch_norm(b: "Bench") -> "List[Any]":
    side = b.pick(14, 56)
    x, w, bias = b.leaves(b.randn(b.pick(8, 16), 32, side, side), b.randn(32), b.randn(32))
    mean, variance = b.torch.zeros(32, device=b.device), b.torch.ones(32, device=b.device)
    output = b.functional.batch_norm(x, mean, variance, w, bias, training=True)
    return [mean, variance, *b.backward(output, [x, w, bias])]


@probe()
def group_norm(b: "Bench") -> "List[Any]":
    side = b.pick(14, 56)
    x, w, bias = b.leaves(b.randn(b.pick(8, 16), 32, side, side), b.randn(32), b.randn(32))
    return b.backward(b.functional.group_norm(x, 8, w, bias), [x, w, bias])
