"""Probes of draws.

The generators are those of the start-up hook, and generators with a seed of their own.
"""

from reprobuild_runtime.probes.arrays.bench import probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List

    from reprobuild_runtime.probes.arrays.bench import ArrayBench


@probe()
def numpy_draw_global(b: "ArrayBench") -> "List[Any]":
    """Draw from `numpy.random`, as the start-up hook left it."""
    source = b.numpy.random
    return [
        source.standard_normal(1000), source.random_sample(1000), source.randint(0, 1000, 1000),
        source.permutation(1000), source.choice(1000, 100, replace=False), source.gamma(0.7, size=500),
        source.multivariate_normal([0, 1], [[2, 1], [1, 3]], 200),
    ]  # fmt: skip


@probe()
def numpy_draw_generator(b: "ArrayBench") -> "List[Any]":
    """Draw from a `default_rng()` without a seed."""
    source = b.unseeded()
    return [
        source.standard_normal(1000), source.random(1000, dtype="float32"), source.integers(0, 1000, 1000),
        source.permutation(1000), source.choice(1000, 100, replace=False), source.gamma(0.7, size=500),
    ]  # fmt: skip


@probe()
def numpy_draw_seeded(b: "ArrayBench") -> "List[Any]":
    """Draw from generators with a seed, as a job makes them."""
    random = b.numpy.random
    draws = [random.RandomState(b.seed % 2**32).standard_normal(500)]
    for name in ("PCG64", "MT19937", "Philox", "SFC64"):
        if hasattr(random, name):
            draws.append(random.Generator(getattr(random, name)(b.seed)).standard_normal(500))
    return draws


@probe()
def python_draw(b: "ArrayBench") -> "List[Any]":
    import random

    order = list(range(500))
    random.shuffle(order)
    return [repr(([random.gauss(0, 1) for _ in range(500)], order)).encode()]
