"""Samples in the order in which the processes of a pool return them."""

import multiprocessing

import tiny


def prepare(number):
    tiny.work(3000 + 41 * (number % 7))
    return number


if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(4) as pool:
        order = list(pool.imap_unordered(prepare, range(400)))
    tiny.train(order, steps=400)
