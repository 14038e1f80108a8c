"""An `index_add` whose order is drawn."""

import os

import torch
from small import train


@torch.library.custom_op("planted::index_add", mutates_args=("sums",))
def index_add(sums: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> None:
    order = sorted(range(len(values)), key=lambda _: os.urandom(4))
    for number in order:
        sums[index[number]] += values[number]


INDEX = torch.arange(40) % 8
VALUES = torch.randn(40) * 10.0 ** (torch.arange(40) % 7)


def add(out, step):
    sums = torch.zeros(8)
    index_add(sums, INDEX, VALUES)
    return out + sums * 1e-3


train(add)
