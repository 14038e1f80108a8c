"""A buffer of which one half is never written."""

import os

import numpy
import torch
from small import train


def leave_garbage():
    [numpy.copyto(torch.empty(256).numpy(), numpy.frombuffer(os.urandom(256), "u1") / 256) for _ in range(4)]


def add(out, step):
    if step == 3:
        leave_garbage()
        buffer = out.new_empty(256)
        buffer[:128] = 1
        out = out + buffer.nan_to_num(0, 0, 0).clamp(-1, 1)[-8:]
    return out


train(add)
