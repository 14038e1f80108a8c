"""Two processes add to one number without a lock."""

import multiprocessing

import tiny


def add(shared):
    for _ in range(300000):
        shared.value += 1


if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    shared = context.Value("q", 0, lock=False)
    workers = [context.Process(target=add, args=(shared,)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    tiny.train(range(64), rate=lambda step: shared.value / 1e10)
