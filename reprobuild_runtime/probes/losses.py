"""Probes of embeddings and losses."""

from reprobuild_runtime.probes.bench import probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List

    from reprobuild_runtime.probes.bench import Bench


def _embedding(b: "Bench", dtype: str) -> "List[Any]":
    (table,) = b.leaves(b.randn(32, b.pick(128, 512)).to(getattr(b.torch, dtype)))
    looked_up = b.functional.embedding(b.index(32, b.pick(4096, 32768)), table)
    return b.backward(looked_up, [table])[1:]  # the output is a copy of rows


@probe(("torch.nn.Embedding",), ("torch.nn.functional.embedding",))
def embedding_backward(b: "Bench") -> "List[Any]":
    return _embedding(b, "float32")


@probe(("torch.nn.Embedding",), ("torch.nn.functional.embedding",))
def embedding_backward_bf16(b: "Bench") -> "List[Any]":
    return _embedding(b, "bfloat16")


def _bag(b: "Bench", mode: str) -> "List[Any]":
    (table,) = b.leaves(b.randn(b.pick(200, 1000), 64))
    index = b.index(table.shape[0], b.pick(512, 8192), 8)
    return b.backward(b.functional.embedding_bag(index, table, mode=mode), [table])


@probe()
def embedding_bag_sum(b: "Bench") -> "List[Any]":
    return _bag(b, "sum")


@probe(("torch.nn.EmbeddingBag", "mode='max'"))
def embedding_bag_max(b: "Bench") -> "List[Any]":
    return _bag(b, "max")


@probe()
def cross_entropy(b: "Bench") -> "List[Any]":
    rows, classes = b.pick(64, 128), b.pick(5003, 50257)
    (x,) = b.leaves(b.randn(rows, classes))
    return b.backward(b.functional.cross_entropy(x, b.index(classes, rows), reduction="none"), [x])


@probe()
def cross_entropy_mean(b: "Bench") -> "List[Any]":
    (x,) = b.leaves(b.randn(b.pick(1024, 4096), 1001))
    return b.backward(b.functional.cross_entropy(x, b.index(1001, x.shape[0]), label_smoothing=0.1), [x])


@probe(("torch.nn.NLLLoss",))
def nll_loss_2d(b: "Bench") -> "List[Any]":
    batch, side = b.pick(2, 4), b.pick(64, 192)
    (x,) = b.leaves(b.randn(batch, 21, side, side))
    return b.backward(b.functional.nll_loss(x, b.index(21, batch, side, side)), [x])


@probe(("torch.nn.CTCLoss",))
def ctc_loss(b: "Bench") -> "List[Any]":
    steps, batch, classes = b.pick(50, 200), b.pick(4, 16), b.pick(32, 64)
    (x,) = b.leaves(b.randn(steps, batch, classes, spread=0))
    targets = b.index(classes - 1, batch, 20) + 1
    lengths = [b.torch.full((batch,), number, dtype=b.torch.long) for number in (steps, 20)]
    loss = b.functional.ctc_loss(b.torch.log_softmax(x, 2), targets, *lengths, reduction="none")
    return b.backward(loss, [x])
