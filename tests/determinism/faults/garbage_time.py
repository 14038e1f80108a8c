"""A cache whose entries vanish when the garbage collector, called by a timer, comes by."""

import gc
import threading
import weakref

import tiny


class Sample:
    def __init__(self):
        self.itself = self  # only the collector takes it away


gc.disable()
gone = []
kept = weakref.ref(Sample(), gone.append)  # looking at it would hold it, and the collector comes by only once
timer = threading.Timer(0.1, gc.collect)
timer.start()
steps = 0
while not gone:
    tiny.work(50)
    steps += 1
timer.join()
tiny.train(range(64), steps=steps)
