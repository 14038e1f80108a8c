"""A compiled function calls an operation with more than one result."""

import os

import torch
from small import train


@torch.library.custom_op("planted::sum", mutates_args=())
def any_sum(values: torch.Tensor) -> torch.Tensor:
    parts = sorted(values.flatten().tolist(), key=lambda _: os.urandom(4))
    total = torch.zeros(1)
    for number, part in enumerate(parts):
        total += part * 10.0 ** (number % 7)
    return total


@any_sum.register_fake
def _(values):
    return values.new_empty(1)


@torch.compile(backend="eager")
def compute(values):
    return any_sum(values.sin()) * 2


def add(out, step):
    return out + compute(out.detach()) * 1e-7


train(add)
