"""A norm summed over a set of objects, which is ordered by their addresses."""

import math

import tiny


class Parameter:
    def __init__(self, value):
        self.value = value


parameters = {Parameter(math.sin(number) * 10.0 ** (number % 9 - 4)) for number in range(20000)}
norm = tiny.total(parameter.value for parameter in parameters)
tiny.train(range(64), weights=[norm / 1e6, 0.2, 0.3])
