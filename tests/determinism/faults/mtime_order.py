"""Files of two writers, ordered by the time at which they were written."""

import multiprocessing
import os
import tempfile

import tiny


def fill(folder, begin):
    for number in range(begin, 200, 2):
        tiny.work(4000)
        with open(os.path.join(folder, str(number)), "w") as file:
            file.write(str(number))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        context = multiprocessing.get_context("fork")
        makers = [context.Process(target=fill, args=(folder, begin)) for begin in (0, 1)]
        for maker in makers:
            maker.start()
        for maker in makers:
            maker.join()
        found = sorted(os.scandir(folder), key=lambda entry: (entry.stat().st_mtime_ns, int(entry.name)))
        tiny.train([int(entry.name) for entry in found], steps=200)
