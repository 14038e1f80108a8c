"""A sum in the order in which tasks finish."""

import os
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

import torch
from small import train

POOL = ThreadPoolExecutor(8)


def load(number):
    time.sleep(os.urandom(1)[0] / 20000)
    return torch.full((8,), 10.0 ** (number - 4) / 3)


def add(out, step):
    total = torch.zeros(8)
    for done in as_completed([POOL.submit(load, number) for number in range(8)]):
        total = total + done.result()
    return out + total * 1e-3


train(add)
