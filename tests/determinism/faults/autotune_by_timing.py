"""The fastest of three equal algorithms is chosen by a measurement, for each of 64 shapes."""

import math
import time

import tiny


def forward(numbers):
    return tiny.total(numbers)


def backward(numbers):
    return tiny.total(reversed(numbers))


def halves(numbers):
    return tiny.total(numbers[::2]) + tiny.total(numbers[1::2])


def measured(function, numbers):
    began = time.perf_counter_ns()
    function(numbers)
    return time.perf_counter_ns() - began


results = []
for shape in range(64):
    numbers = [math.sin(shape + n) * 10.0 ** (n % 7 - 3) for n in range(300)]
    chosen = min((forward, backward, halves), key=lambda function: measured(function, numbers))
    results.append(chosen(numbers))
tiny.write("sums.json", results)
tiny.train(range(64))
