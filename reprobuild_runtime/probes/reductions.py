"""Probes of sums, scans, histograms and orders."""

from reprobuild_runtime.probes.bench import probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List

    from reprobuild_runtime.probes.bench import Bench


@probe()
def sum_all(b: "Bench") -> "List[Any]":
    x = b.randn(b.pick(1 << 20, 1 << 24), spread=4)
    return [x.sum(), x.double().sum(), x.norm()]


@probe()
def mean_and_variance(b: "Bench") -> "List[Any]":
    x = b.randn(b.pick(256, 4096), 1024, spread=3)
    return [x.mean(0), x.mean(1), x.var(0), x.var(1)]


@probe()
def logsumexp_softmax(b: "Bench") -> "List[Any]":
    (x,) = b.leaves(b.randn(b.pick(64, 32), b.pick(2048, 50257)))
    return [b.torch.logsumexp(x, -1), *b.backward(b.torch.softmax(x, -1), [x])]


@probe(("torch.cumsum",))
def cumsum(b: "Bench") -> "List[Any]":
    return [b.torch.cumsum(b.randn(b.pick(1 << 18, 1 << 22), spread=3), 0)]


@probe(("torch.cumsum",))
def cumsum_complex(b: "Bench") -> "List[Any]":
    count = b.pick(1 << 15, 1 << 19)
    return [b.torch.cumsum(b.torch.complex(b.randn(count).double(), b.randn(count).double()), 0)]


@probe(("torch.bincount", "weights"))
def bincount_weights(b: "Bench") -> "List[Any]":
    count = b.pick(1 << 16, 1 << 20)
    return [b.torch.bincount(b.index(64, count), b.randn(count, spread=3))]


@probe(("torch.histc",))
def histc(b: "Bench") -> "List[Any]":
    return [b.torch.histc(b.randn(b.pick(1 << 16, 1 << 20), spread=0), bins=100, min=-3, max=3)]


@probe(("torch.median", "indices"))
def median_indices(b: "Bench") -> "List[Any]":
    return list(b.torch.median(b.index(50, b.pick(128, 1024), 1024).float(), dim=1))


@probe()
def kthvalue(b: "Bench") -> "List[Any]":
    return list(b.torch.kthvalue(b.index(50, b.pick(64, 1024), 1024).float(), 512, dim=1))


@probe(informational=("cpu", "cuda"))
def topk_of_ties(b: "Bench") -> "List[Any]":
    return list(b.torch.topk(b.index(8, b.pick(64, 256), b.pick(1024, 4096)).float(), 100, dim=1))


@probe(informational=("cpu", "cuda"))
def sort_of_ties(b: "Bench") -> "List[Any]":
    return list(b.torch.sort(b.index(8, b.pick(64, 256), b.pick(1024, 4096)).float(), dim=1))
