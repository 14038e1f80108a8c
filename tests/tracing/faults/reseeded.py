"""The global generator of PyTorch is seeded by the time in one step."""

import time

import torch
from small import train


def add(out, step):
    if step == 2:
        torch.manual_seed(time.time_ns() % 2**31)
    return out + torch.randn(8) * 1e-3


train(add)
