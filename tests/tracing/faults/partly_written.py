"""A buffer of which one half is never written."""

import os

import torch
from small import train


def leave_garbage():
    for size in (256, 256, 256):
        torch.frombuffer(bytearray(os.urandom(size * 4)), dtype=torch.float32).nan_to_num(0, 0, 0).clamp(
            -1, 1
        )


def add(out, step):
    if step == 3:
        leave_garbage()
        buffer = out.new_empty(256)
        buffer[:128] = 1
        out = out + buffer.nan_to_num(0, 0, 0).clamp(-1, 1)[-8:]
    return out


train(add)
