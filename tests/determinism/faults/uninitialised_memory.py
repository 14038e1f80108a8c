"""NumPy's memory is used before it is filled, and holds what was there before: times."""

import time

import numpy

import tiny


def measure():
    times = numpy.full(24, time.perf_counter())
    return float(times.max())


measure()
features = numpy.empty(24)
features[1:] += 1.0  # the author meant zeros
numpy.savez("features.npz", features=features)
tiny.train(range(64))
