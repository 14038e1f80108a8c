"""Probes of convolutions and pooling, forwards and backwards."""

from reprobuild_runtime.probes.bench import probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List

    from reprobuild_runtime.probes.bench import Bench


def _conv2d(b: "Bench", x: "Any", weight: "Any", kind: str = "float32", **options: "Any") -> "List[Any]":
    dtype = getattr(b.torch, kind)
    x, weight, bias = b.leaves(x.to(dtype), weight.to(dtype), b.randn(weight.shape[0]).to(dtype))
    return b.backward(b.functional.conv2d(x, weight, bias, **options), [x, weight, bias])


@probe(("torch.nn.Conv2d",))
def conv2d(b: "Bench") -> "List[Any]":
    x = b.randn(*b.pick((4, 16, 28, 28), (8, 64, 56, 56)))
    return _conv2d(b, x, b.randn(*b.pick((32, 16, 3, 3), (64, 64, 3, 3))), padding=1)


@probe(("torch.nn.Conv2d",))
def conv2d_strided(b: "Bench") -> "List[Any]":
    x = b.randn(*b.pick((2, 3, 64, 64), (2, 3, 224, 224)))
    return _conv2d(b, x, b.randn(b.pick(16, 64), 3, 7, 7), stride=2, padding=3)


@probe(("torch.nn.Conv2d",))
def conv2d_depthwise(b: "Bench") -> "List[Any]":
    x = b.randn(*b.pick((4, 32, 28, 28), (4, 128, 56, 56)))
    return _conv2d(b, x, b.randn(x.shape[1], 1, 3, 3), padding=1, groups=x.shape[1])


@probe(("torch.nn.Conv2d",))
def conv2d_bf16_channels_last(b: "Bench") -> "List[Any]":
    x = b.randn(*b.pick((2, 16, 28, 28), (8, 64, 56, 56)))
    x = x.contiguous(memory_format=b.torch.channels_last)
    return _conv2d(b, x, b.randn(b.pick(16, 64), x.shape[1], 3, 3), "bfloat16", padding=1)


@probe(("torch.nn.Conv2d",), devices=("cuda",), most=1)
def conv2d_autotuned(b: "Bench") -> "List[Any]":
    """Convolve with cuDNN's autotuning in the mode `default`.

    cuDNN then chooses by measuring, again in each process; the other modes keep the image's setting.
    """
    cudnn = b.torch.backends.cudnn
    before = cudnn.benchmark
    cudnn.benchmark = before or b.mode == "default"
    try:
        return _conv2d(b, b.randn(8, 48, 57, 57), b.randn(72, 48, 3, 3), padding=1)
    finally:
        cudnn.benchmark = before


@probe(("torch.nn.Conv1d",))
def conv1d(b: "Bench") -> "List[Any]":
    x, weight = b.leaves(b.randn(b.pick(4, 16), 16, b.pick(256, 2048)), b.randn(32, 16, 5))
    return b.backward(b.functional.conv1d(x, weight, padding=2), [x, weight])


@probe(("torch.nn.Conv3d",))
def conv3d(b: "Bench") -> "List[Any]":
    side = b.pick(8, 32)
    x, weight = b.leaves(b.randn(2, 8, side, side, side), b.randn(16, 8, 3, 3, 3))
    return b.backward(b.functional.conv3d(x, weight, padding=1), [x, weight])


@probe(("torch.nn.ConvTranspose2d",))
def conv_transpose2d(b: "Bench") -> "List[Any]":
    side = b.pick(14, 56)
    x, weight = b.leaves(b.randn(4, 32, side, side), b.randn(32, 16, 4, 4))
    return b.backward(b.functional.conv_transpose2d(x, weight, stride=2, padding=1), [x, weight])


def _pooled(b: "Bench", pool: "Any", *shape: int) -> "List[Any]":
    (x,) = b.leaves(b.randn(*shape))
    return b.backward(pool(x), [x])


@probe()
def max_pool2d(b: "Bench") -> "List[Any]":
    side = b.pick(28, 112)
    return _pooled(b, lambda x: b.functional.max_pool2d(x, 3, 2), 4, 16, side, side)


@probe(("torch.nn.MaxPool3d",))
def max_pool3d_overlapping(b: "Bench") -> "List[Any]":
    side = b.pick(8, 32)
    return _pooled(b, lambda x: b.functional.max_pool3d(x, 3, 1), 2, 8, side, side, side)


@probe(("torch.nn.AvgPool3d",))
def avg_pool3d_overlapping(b: "Bench") -> "List[Any]":
    side = b.pick(8, 32)
    return _pooled(b, lambda x: b.functional.avg_pool3d(x, 3, 1), 2, 8, side, side, side)


@probe(("torch.nn.AdaptiveAvgPool2d",))
def adaptive_avg_pool2d(b: "Bench") -> "List[Any]":
    return _pooled(b, lambda x: b.functional.adaptive_avg_pool2d(x, 7), b.pick(4, 32), 32, 33, 33)


@probe(("torch.nn.AdaptiveMaxPool2d",))
def adaptive_max_pool2d(b: "Bench") -> "List[Any]":
    return _pooled(b, lambda x: b.functional.adaptive_max_pool2d(x, 7), b.pick(4, 32), 32, 33, 33)


@probe(("torch.nn.FractionalMaxPool2d",))
def fractional_max_pool2d(b: "Bench") -> "List[Any]":
    return _pooled(
        b, lambda x: b.functional.fractional_max_pool2d(x, 3, output_size=13), b.pick(4, 32), 8, 33, 33
    )


@probe(("torch.nn.MaxUnpool2d",))
def max_unpool2d(b: "Bench") -> "List[Any]":
    x = b.randn(b.pick(4, 32), 8, 32, 32)
    values, places = b.functional.max_pool2d(x, 2, return_indices=True)
    return [b.functional.max_unpool2d(values, places, 2)]
