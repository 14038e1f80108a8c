"""NumPy is seeded by the process."""

import os

import numpy
import torch
from small import train

numpy.random.seed(int.from_bytes(os.urandom(4), "little"))


def add(out, step):
    return out + torch.from_numpy(numpy.random.randn(8).astype("float32")) * 1e-3


train(add)
