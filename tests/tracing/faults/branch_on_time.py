"""The way of the program depends on the time."""

import time

from small import train


def add(out, step):
    if step == 2:
        out = out.relu() if time.time_ns() // 1000 % 2 else out.tanh()
    return out


train(add)
