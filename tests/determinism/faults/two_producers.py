"""Two processes put samples into one queue."""

import multiprocessing

import tiny


def produce(queue, begin):
    for number in range(begin, 400, 2):
        tiny.work(1000)
        queue.put(number)


if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    makers = [context.Process(target=produce, args=(queue, begin)) for begin in (0, 1)]
    for maker in makers:
        maker.start()
    order = [queue.get() for _ in range(400)]
    for maker in makers:
        maker.join()
    tiny.train(order, steps=400)
