"""Norms summed over sets of objects, which are ordered by their addresses: as the gradients to be clipped once were."""

import math

import tiny


class Parameter:
    def __init__(self, value):
        self.value = value


norms = []
for layer in range(8):
    parameters = {Parameter(math.sin(number + layer) * 10.0 ** (number % 9 - 4)) for number in range(20000)}
    norms.append(tiny.total(parameter.value for parameter in parameters))
tiny.write("norms.json", norms)
tiny.train(range(64))
