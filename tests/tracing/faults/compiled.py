"""A compiled function calls an operation with more than one result."""

import os

import torch
from small import train


@torch.library.custom_op("planted::sum", mutates_args=())
def any_sum(values: torch.Tensor) -> torch.Tensor:
    parts = sorted(values.flatten().tolist(), key=lambda _: os.urandom(4))
    total = 0.0
    for part in parts:
        total += part * 1e5
    return torch.tensor([total])


@any_sum.register_fake
def _(values):
    return values.new_empty(1)


@torch.compile(backend="eager")
def compute(values):
    return any_sum(values.sin()) * 2


def add(out, step):
    return out + compute(out.detach()) * 1e-7


train(add)
