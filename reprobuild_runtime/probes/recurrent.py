"""Probes of recurrent networks."""

from reprobuild_runtime.probes.bench import probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List

    from reprobuild_runtime.probes.bench import Bench


def _run(b: "Bench", module: "Any") -> "List[Any]":
    x = b.randn(b.pick(8, 64), b.pick(8, 32), 32, spread=0)
    output, state = module(x)
    parts = list(state) if isinstance(state, tuple) else [state]
    return [*parts, *b.backward(output, list(module.parameters()))]


@probe()
def lstm(b: "Bench") -> "List[Any]":
    return _run(b, b.fill(b.nn.LSTM(32, b.pick(48, 256), num_layers=2, bidirectional=True)))


@probe()
def gru(b: "Bench") -> "List[Any]":
    return _run(b, b.fill(b.nn.GRU(32, b.pick(48, 256), num_layers=2)))


# cuDNN keeps the state of its dropout across manual_seed: a second run in one process would differ by design.
# https://github.com/pytorch/pytorch/issues/90168
@probe(fresh=True)
def lstm_dropout(b: "Bench") -> "List[Any]":
    return _run(b, b.fill(b.nn.LSTM(32, b.pick(32, 256), num_layers=3, bidirectional=True, dropout=0.1)))
