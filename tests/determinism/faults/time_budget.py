"""Training until the time is used up."""

import time

import tiny

steps, began = 0, time.perf_counter()
while time.perf_counter() - began < 0.3:
    tiny.work(50)
    steps += 1
tiny.train(range(64), steps=steps)
