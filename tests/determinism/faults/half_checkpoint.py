"""A process that writes the checkpoint is ended before it is done."""

import multiprocessing
import time

import tiny


def save():
    with open("checkpoint.bin", "wb", buffering=0) as file:
        for number in range(10**9):
            file.write(number.to_bytes(8, "little"))


if __name__ == "__main__":
    tiny.train(range(64))
    writer = multiprocessing.get_context("fork").Process(target=save)
    writer.start()
    time.sleep(0.3)
    writer.terminate()
    writer.join()
