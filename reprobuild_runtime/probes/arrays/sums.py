"""Probes of NumPy's sums, orders and elementary functions."""

from reprobuild_runtime.probes.arrays.bench import probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List

    from reprobuild_runtime.probes.arrays.bench import ArrayBench


@probe()
def numpy_sums(b: "ArrayBench") -> "List[Any]":
    values, single = b.randn(300, 401), b.randn(300, 401, dtype="float32")
    sums = [array.sum(axis=axis) for array in (values, single) for axis in (None, 0, 1)]
    return [*map(b.numpy.asarray, sums), b.numpy.cumsum(single, axis=1), b.numpy.asarray(values.T.sum())]


@probe()
def numpy_moments(b: "ArrayBench") -> "List[Any]":
    values = b.randn(300, 401, dtype="float32")
    moments = [
        values.mean(axis=0),
        values.var(axis=1),
        values.std(),
        b.numpy.median(values, axis=0),
        values.prod(axis=0),
    ]
    return [*map(b.numpy.asarray, moments), b.numpy.cov(values[:40]), b.numpy.percentile(values, [1, 50, 99])]


@probe()
def numpy_scatter(b: "ArrayBench") -> "List[Any]":
    index, values = b.index(64, 50000), b.randn(50000)
    total = b.numpy.zeros(64)
    b.numpy.add.at(total, index, values)
    bins = b.numpy.histogram(values, bins=50, weights=values[::-1])[0]
    return [
        total,
        b.numpy.bincount(index, weights=values),
        bins,
        b.numpy.add.reduceat(values, b.numpy.arange(0, 50000, 77)),
    ]


@probe()
def numpy_orders(b: "ArrayBench") -> "List[Any]":
    """Sort numbers with ties; each processor's kernel has one order."""
    ties, values = b.index(50, 20000), b.randn(20000, dtype="float32")
    return [
        b.numpy.argsort(ties), b.numpy.argsort(ties, kind="stable"), b.numpy.sort(values),
        b.numpy.argpartition(ties, 100), *b.numpy.unique(ties, return_index=True, return_counts=True),
    ]  # fmt: skip


@probe()
def numpy_functions(b: "ArrayBench") -> "List[Any]":
    results = []
    for dtype in ("float32", "float64"):
        values = b.randn(4099, dtype=dtype)
        small = b.numpy.clip(values, -5, 5)
        results += [
            b.numpy.exp(small),
            b.numpy.log(b.numpy.abs(values)),
            b.numpy.sin(values),
            b.numpy.tanh(values),
        ]
        results += [
            b.numpy.power(b.numpy.abs(small), 1.7),
            b.numpy.sqrt(b.numpy.abs(values)),
            b.numpy.arctan2(values, small),
        ]
    return results
