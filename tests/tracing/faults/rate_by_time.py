"""A learning rate that is derived from the time."""

import time

from small import OPTIMIZER, train


def add(out, step):
    if step == 2:
        OPTIMIZER.param_groups[0]["lr"] = time.time() % 1 / 100
    return out


train(add)
