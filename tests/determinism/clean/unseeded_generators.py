"""Generators that nobody seeded: the hooks make them a function of the seed."""

import random

import numpy

import tiny

generator = numpy.random.default_rng()
numpy.savez("draws.npz", normal=generator.normal(size=(5, 3)), more=numpy.random.RandomState().rand(4))
tiny.train(random.Random().sample(range(64), 64))
