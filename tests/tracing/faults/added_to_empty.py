"""A sum that begins with memory as it was."""

import os

import numpy
import torch
from small import train

TEMPLATE = torch.zeros(256)


def leave_garbage():
    [numpy.copyto(torch.empty(256).numpy(), numpy.frombuffer(os.urandom(256), "u1") / 256) for _ in range(4)]


def add(out, step):
    if step == 1:
        leave_garbage()
        total = torch.empty_like(TEMPLATE)
        total += 1.0
        out = out + total.nan_to_num(0, 0, 0).clamp(-1, 1)[:8]
    return out


train(add)
