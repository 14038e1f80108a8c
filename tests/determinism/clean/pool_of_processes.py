"""Processes that draw numbers, and whose results come in order."""

import multiprocessing
import random

import tiny


def draw(number):
    return random.Random(number).randrange(64)


if __name__ == "__main__":
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            order = pool.map(draw, range(64), chunksize=4)
    tiny.train(order)
