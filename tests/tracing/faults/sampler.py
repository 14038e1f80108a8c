"""A sampler with a generator of its own, seeded by the time."""

import time

import torch
from small import train
from torch.utils.data import DataLoader

GENERATOR = torch.Generator().manual_seed(time.time_ns() % 2**31)
BATCHES = iter(
    DataLoader(
        torch.arange(64.0).reshape(64, 1).expand(64, 8), batch_size=8, shuffle=True, generator=GENERATOR
    )
)


def add(out, step):
    return out + next(BATCHES).mean(0) * 1e-3


train(add)
