"""The gradient of an index with repeated elements."""

import torch
from small import train

INDEX = torch.arange(1 << 20) % 61
VALUES = torch.randn(1 << 20)


def add(out, step):
    table = torch.ones(61, requires_grad=True)
    (table[(INDEX,)] * VALUES).sum().backward()
    return out + table.grad[:8] * 1e-3


train(add)
