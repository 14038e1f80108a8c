"""A sum that begins with memory as it was."""

import os

import torch
from small import train

TEMPLATE = torch.zeros(256)


def leave_garbage():
    for size in (256, 256, 256):
        torch.frombuffer(bytearray(os.urandom(size * 4)), dtype=torch.float32).nan_to_num(0, 0, 0).clamp(
            -1, 1
        )


def add(out, step):
    if step == 1:
        leave_garbage()
        total = torch.empty_like(TEMPLATE)
        total += 1.0
        out = out + total.nan_to_num(0, 0, 0).clamp(-1, 1)[:8]
    return out


train(add)
