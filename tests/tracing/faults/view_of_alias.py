"""An alias of a weight is changed in place."""

import time

from small import MODEL, train

ALIAS = MODEL[0].weight.detach().numpy().reshape(-1)


def add(out, step):
    if step == 1:
        ALIAS[3] += time.perf_counter() % 1
    return out


train(add)
