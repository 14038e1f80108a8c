"""Gradients of threads summed as they complete."""

import math
from concurrent.futures import ThreadPoolExecutor, as_completed

import tiny


def gradient(number):
    tiny.work(2000 + 37 * (number % 11))
    return math.sin(number) * 10.0 ** (number % 9 - 4)


with ThreadPoolExecutor(8) as pool:
    result = tiny.total(
        done.result() for done in as_completed([pool.submit(gradient, n) for n in range(400)])
    )
tiny.train(range(64), weights=[result / 1e6, 0.2, 0.3])
