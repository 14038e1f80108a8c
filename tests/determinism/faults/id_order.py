"""Samples in a dictionary by `id`, gone through in buckets, as a cache by identity does."""

import tiny


class Sample:
    def __init__(self, number):
        self.number = number


kept = [Sample(number) for number in range(64)]
buckets = {}
for sample in kept:
    buckets.setdefault(id(sample) // 16 % 61, []).append(sample.number)
tiny.train(number for bucket in sorted(buckets) for number in buckets[bucket])
