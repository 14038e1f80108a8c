"""Shards of two writers, in the order in which a file system in memory lists them."""

import multiprocessing
import os
import tempfile

import tiny


def fill(folder, begin):
    for number in range(begin, 300, 2):
        tiny.work(2000)
        with open(os.path.join(folder, str(number)), "w") as file:
            file.write(str(number))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        context = multiprocessing.get_context("fork")
        makers = [context.Process(target=fill, args=(folder, begin)) for begin in (0, 1)]
        for maker in makers:
            maker.start()
        for maker in makers:
            maker.join()
        tiny.train([int(name) for name in os.listdir(folder)], steps=300)
