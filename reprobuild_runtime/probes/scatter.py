"""Probes of additions to one place from several threads.

Atomics make them drift.
"""

from reprobuild_runtime.probes.bench import probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List

    from reprobuild_runtime.probes.bench import Bench


@probe(("torch.index_add",))
def index_add(b: "Bench") -> "List[Any]":
    count = b.pick(20000, 200000)
    start = b.torch.zeros(16, 32, device=b.device)
    return [start.index_add_(0, b.index(16, count), b.randn(count, 32, spread=3))]


@probe(("torch.Tensor.index_copy",))
def index_copy(b: "Bench") -> "List[Any]":
    count = b.pick(4000, 100000)
    order = b.order(count)
    return [b.torch.zeros(count, 16, device=b.device).index_copy_(0, order, b.randn(count, 16))]


@probe(("torch.Tensor.scatter_add_",))
def scatter_add(b: "Bench") -> "List[Any]":
    count = b.pick(1 << 17, 1 << 20)
    start = b.torch.zeros(64, device=b.device)
    return [start.scatter_add_(0, b.index(64, count), b.randn(count, spread=3))]


@probe(("torch.Tensor.scatter_add_",))
def scatter_add_bf16(b: "Bench") -> "List[Any]":
    count = b.pick(1 << 16, 1 << 20)
    start = b.torch.zeros(64, device=b.device, dtype=b.torch.bfloat16)
    return [start.scatter_add_(0, b.index(64, count), b.randn(count).bfloat16())]


def _scatter_and_reduce(b: "Bench", how: str) -> "List[Any]":
    count = b.pick(8000, 200000)
    start = b.torch.zeros(16, 32, device=b.device)
    reduce = b.need(getattr(start, "scatter_reduce", None), "this torch has no scatter_reduce")
    return [reduce(0, b.index(16, count, 32), b.randn(count, 32, spread=3), reduce=how)]


@probe(("torch.Tensor.scatter_reduce", "sum"))
def scatter_reduce_sum(b: "Bench") -> "List[Any]":
    return _scatter_and_reduce(b, "sum")


@probe(("torch.Tensor.scatter_reduce", "mean"))
def scatter_reduce_mean(b: "Bench") -> "List[Any]":
    return _scatter_and_reduce(b, "mean")


@probe(("torch.Tensor.scatter_reduce", "prod"))
def scatter_reduce_prod(b: "Bench") -> "List[Any]":
    count = b.pick(2000, 8000)
    start = b.torch.ones(
        count // 8, 32, device=b.device
    )  # some eight factors each: no product is 0 or infinite
    reduce = b.need(getattr(start, "scatter_reduce", None), "this torch has no scatter_reduce")
    return [reduce(0, b.index(count // 8, count, 32), b.randn(count, 32), reduce="prod")]


@probe(("torch.Tensor.index_put", "accumulate=True"))
def index_put_accumulate(b: "Bench") -> "List[Any]":
    count = b.pick(1 << 15, 200000)
    start = b.torch.zeros(16, 32, device=b.device)
    return [start.index_put_((b.index(16, count),), b.randn(count, 32, spread=3), accumulate=True)]


@probe(("torch.Tensor.index_put", "accumulate=False"))
def index_put(b: "Bench") -> "List[Any]":
    count = b.pick(1 << 14, 200000)
    order = b.order(count)
    return [b.torch.zeros(count, 8, device=b.device).index_put_((order,), b.randn(count, 8))]


@probe(("torch.Tensor.put_", "accumulate=True"))
def put_accumulate(b: "Bench") -> "List[Any]":
    count = b.pick(1 << 15, 1 << 18)
    start = b.torch.zeros(16, 32, device=b.device)
    return [start.put_(b.index(512, count), b.randn(count, spread=3), accumulate=True)]


@probe(("torch.Tensor.put_", "accumulate=False"))
def put(b: "Bench") -> "List[Any]":
    count = b.pick(1 << 14, 1 << 18)
    order = b.order(count)
    return [b.torch.zeros(count, device=b.device).put_(order, b.randn(count))]


@probe()
def index_reduce_mean(b: "Bench") -> "List[Any]":
    count = b.pick(8000, 200000)
    start = b.torch.zeros(16, 32, device=b.device)
    reduce = b.need(getattr(start, "index_reduce_", None), "this torch has no index_reduce_")
    return [reduce(0, b.index(16, count), b.randn(count, 32, spread=3), "mean")]


@probe(("torch.gather",))
def gather_backward(b: "Bench") -> "List[Any]":
    (x,) = b.leaves(b.randn(64, 32))
    return b.backward(b.torch.gather(x, 0, b.index(64, b.pick(8000, 100000), 32)), [x])


@probe(("torch.index_select",))
def index_select_backward(b: "Bench") -> "List[Any]":
    (x,) = b.leaves(b.randn(64, 32))
    return b.backward(b.torch.index_select(x, 0, b.index(64, b.pick(8000, 100000))), [x])


@probe(("torch.repeat_interleave",))
def repeat_interleave_backward(b: "Bench") -> "List[Any]":
    (x,) = b.leaves(b.randn(64, 32))
    times = b.index(b.pick(250, 3000), 64)
    return b.backward(b.torch.repeat_interleave(x, times, dim=0), [x])


@probe(("torch.Tensor.__getitem__",))
def getitem_backward(b: "Bench") -> "List[Any]":
    (x,) = b.leaves(b.randn(64, 32))
    return b.backward(x[(b.index(64, b.pick(8000, 100000)),)], [x])
