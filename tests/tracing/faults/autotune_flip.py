"""An operation that keeps the algorithm that was faster in this process."""

import os

import torch
from small import train

CHOSEN = os.urandom(1)[0] % 100  # as a measurement of two kernels would choose


@torch.library.custom_op("planted::tuned_sum", mutates_args=())
def tuned_sum(values: torch.Tensor) -> torch.Tensor:
    parts = values.flatten().split(CHOSEN + 1)
    return sum(part.sum() for part in parts).reshape(1)


def add(out, step):
    return out + tuned_sum(out.detach().clone()) * 1e-3


train(add)
