"""Additions into few elements by several threads."""

import torch
from small import train

INDEX = torch.arange(1 << 20) % 61
VALUES = torch.randn(1 << 20)


def add(out, step):
    sums = torch.zeros(61).index_put((INDEX,), VALUES, accumulate=True)
    return out + sums[:8] * 1e-3


train(add)
