"""A tensor that is changed through NumPy."""

import time

from small import train


def add(out, step):
    if step == 3:
        out.detach().numpy()[0, 0] += time.time() % 1
    return out


train(add)
