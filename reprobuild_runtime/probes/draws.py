"""Probes of draws, which depend on the seed.

The other probes do not.
"""

from reprobuild_runtime.probes.bench import probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List

    from reprobuild_runtime.probes.bench import Bench


@probe()
def draw_normal(b: "Bench") -> "List[Any]":
    torch = b.torch
    return [torch.randn(4097, device=b.device), torch.rand(1025, device=b.device).exponential_()]


@probe()
def draw_dropout(b: "Bench") -> "List[Any]":
    return [b.functional.dropout(b.randn(4096), 0.3, training=True)]


@probe()
def draw_order(b: "Bench") -> "List[Any]":
    return [b.torch.randperm(b.pick(5000, 200000), device=b.device)]


@probe()
def draw_choices(b: "Bench") -> "List[Any]":
    weights = b.randn(16, 512).abs()
    return [b.torch.multinomial(weights, 64), b.torch.bernoulli(b.torch.rand(4096, device=b.device))]


@probe()
def draw_python(b: "Bench") -> "List[Any]":
    import random

    random.seed(b.seed)
    order = list(range(1000))
    random.shuffle(order)
    return [repr(([random.random() for _ in range(100)], order)).encode()]


@probe()
def draw_numpy(b: "Bench") -> "List[Any]":
    try:
        import numpy.random
    except ImportError as err:
        return list(b.need(None, f"NumPy does not import: {err}"))
    numpy.random.seed(b.seed)
    order = numpy.random.permutation(1000).astype("<i8")
    drawn = numpy.random.Generator(numpy.random.PCG64(b.seed)).standard_normal(1000)
    return [numpy.random.standard_normal(1000).tobytes(), order.tobytes(), drawn.tobytes()]
