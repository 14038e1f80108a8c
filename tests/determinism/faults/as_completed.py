"""Gradients of threads are applied as they complete."""

from concurrent.futures import ThreadPoolExecutor, as_completed

import tiny


def gradient(number):
    tiny.work(40000 + 3000 * (number % 7))
    return number


with ThreadPoolExecutor(8) as pool:
    order = [done.result() for done in as_completed([pool.submit(gradient, number) for number in range(150)])]
tiny.train(order, steps=150)
