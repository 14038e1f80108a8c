"""A learning rate that falls with the time that has passed."""

import time

import tiny

began = time.perf_counter()


def rate(step):
    tiny.work(1000)
    return 0.0005 / (1 + time.perf_counter() - began)


tiny.train(range(64), rate=rate)
