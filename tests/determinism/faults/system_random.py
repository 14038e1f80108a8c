"""Sampling with `SystemRandom`, which has no seed."""

import random

import tiny

tiny.train(random.SystemRandom().sample(range(64), 64))
